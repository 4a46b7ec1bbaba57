"""The demo's findings as one HTML page: no script, no style sheet, no font from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from examples.demo.equality import Row
from examples.demo.steps import Check

WIDTH, HEIGHT, MARGIN = 760, 300, 48

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>headrace demo</title>
<style>
 body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }}
 table {{ border-collapse: collapse; width: 100%; }} td, th {{ text-align: left; padding: .25rem .5rem; vertical-align: top; }}
 tr + tr {{ border-top: 1px solid #ddd; }} .ok {{ color: #1a7f37; }} .failed {{ color: #c62828; font-weight: bold; }}
 code, pre {{ background: #f4f4f4; }} pre {{ padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }} svg text {{ font-size: 12px; fill: #444; }}
</style>
<h1>headrace demo: {verdict}</h1>
<p>{summary}</p>
<h2>Loss</h2>
{plot}
<p>Mean cross-entropy in nats, by step. The line is the run that nothing disturbed. Open circles are the run that was killed after step {killed},
before; dots are the same run after its restart. Where a circle has a dot inside, the step was done twice, from the last
checkpoint on. Squares are the killed run continued on one process.</p>
<h2>What was checked</h2>
<table>{checks}</table>
<h2>What to try next</h2>
<pre>{next_steps}</pre>
</html>
"""


@dataclass(frozen=True, slots=True)
class Series:
    """Losses to draw. mark: "line", "circle", "dot" or "square"."""

    mark: str
    rows: Sequence[Row]


def loss_plot(series: Sequence[Series]) -> str:
    """An inline SVG with steps to the right and loss upwards."""
    points = [(row["step"], row["loss"]) for each in series for row in each.rows]
    last = max(1, *(step for step, _ in points))
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    room = max(high - low, 1e-9)

    def at(row: Row) -> tuple[float, float]:
        x = MARGIN + (WIDTH - 2 * MARGIN) * row["step"] / last
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (row["loss"] - low) / room

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss by step">',
        f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" fill="none" stroke="#999"/>',
        f'<text x="4" y="{MARGIN + 4}">{high:.2f}</text><text x="4" y="{HEIGHT - MARGIN}">{low:.2f}</text>',
        f'<text x="{MARGIN}" y="{HEIGHT - 20}">step 0</text>',
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 20}" text-anchor="end">step {last}</text>',
    ]
    for each in series:
        places = [at(row) for row in each.rows]
        if each.mark == "line":
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="#1f6feb" stroke-width="2"/>')
        for x, y in places:
            if each.mark == "circle":
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="#c62828" stroke-width="2"/>'
                )
            elif each.mark == "dot":
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#1a7f37"/>')
            elif each.mark == "square":
                parts.append(
                    f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16" fill="none" stroke="#8250df"/>'
                )
    return "\n".join([*parts, "</svg>"])


def write(
    path: Path,
    *,
    checks: Sequence[Check],
    series: Sequence[Series],
    killed: int,
    summary: str,
    next_steps: Sequence[str],
) -> None:
    rows = [
        f'<tr><td class="{"ok" if check.holds else "failed"}">{"holds" if check.holds else "FAILED"}</td>'
        f"<td>{escape(check.claim)}</td></tr>"
        for check in checks
    ]
    failed = sum(not check.holds for check in checks)
    page = PAGE.format(
        verdict=f"{failed} of {len(checks)} checks failed" if failed else f"all {len(checks)} checks hold",
        summary=escape(summary),
        plot=loss_plot(series),
        killed=killed,
        checks="\n".join(rows),
        next_steps=escape("\n".join(next_steps)),
    )
    path.write_text(page, encoding="utf-8")
