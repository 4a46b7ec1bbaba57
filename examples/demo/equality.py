"""Two runs, compared by the files that they wrote: metrics.jsonl line by line, and nothing kept in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]

STREAM = ("first_sample", "end_sample", "digest")  # which tokens a step consumed
RESULT = ("loss", "grad_norm")  # what it made of them; JSON holds every bit of a float


def read_metrics(run_dir: Path) -> list[Row]:
    """Every line, in the order of writing: a restarted run tells replayed steps twice."""
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`steps`: told by both runs. `tellings`: lines compared, replayed steps included. `differences`: in words."""

    steps: int
    tellings: int
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return self.tellings > 0 and not self.differences


def compare(reference: list[Row], other: list[Row], fields: tuple[str, ...]) -> Comparison:
    """Holds every line of `other` to the line of the same step in `reference`."""
    expected = {row["step"]: row for row in reference}
    differences = [
        f"step {row['step']}: {field} is {row[field]!r}, in the reference run {expected[row['step']][field]!r}"
        for row in other
        if row["step"] in expected
        for field in fields
        if row[field] != expected[row["step"]][field]
    ]
    strangers = sorted({row["step"] for row in other} - set(expected))
    differences += [f"step {step} is not in the reference run" for step in strangers]
    return Comparison(len({row["step"] for row in other} & set(expected)), len(other), tuple(differences))


def final(rows: list[Row]) -> list[Row]:
    """The last telling of each step, in order of steps."""
    return [row for _, row in sorted({row["step"]: row for row in rows}.items())]
