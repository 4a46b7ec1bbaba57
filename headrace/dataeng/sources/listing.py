"""Many problems in one message, as far as anyone reads on."""

from __future__ import annotations

from typing import Final

MAX_LISTED: Final = 20


def listed(what: str, problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"  {problem}" for problem in problems[:MAX_LISTED]]
    if len(problems) > MAX_LISTED:
        lines.append(f"  and {len(problems) - MAX_LISTED:,} more")
    return f"{len(problems):,} sources {what}:\n" + "\n".join(lines)
