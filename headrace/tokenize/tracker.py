"""Add up what is done and what is under way, and tell whoever wants to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.tokenize.config import Progress
from headrace.tokenize.executors.base import Counts
from headrace.tokenize.journal import COUNTED
from headrace.tokenize.units import Unit


class Record(Protocol):
    """The outcome of a pass over a unit."""

    @property
    def unit(self) -> int: ...

    @property
    def rejects(self) -> dict[str, int]: ...

    def total(self, what: str) -> int: ...


class Tracker:
    """Is told of open and finished units and makes a Progress of it. A unit that is begun again counts once."""

    def __init__(
        self, units: Sequence[Unit], tell: Callable[[Progress], None] | None, doing: str = "tokenize"
    ) -> None:
        self._doing = doing
        self._planned = {unit.index: unit.text_bytes for unit in units}
        self._planned_total = max(1, sum(self._planned.values()))
        self._tell = tell
        self._done, self._resumed = Counts(), Counts()
        self._planned_done = self._planned_resumed = 0
        self._num_done = 0
        self._open: dict[int, Counts] = {}
        self._report()

    def done(self, record: Record, *, resumed: bool) -> None:
        """`resumed`: an earlier run had done it."""
        counts = Counts(**{name: record.total(name) for name in COUNTED}, rejects=record.rejects)
        planned = self._planned[record.unit]
        self._open.pop(record.unit, None)
        self._done = _plus(self._done, counts)
        self._planned_done += planned
        self._num_done += 1
        if resumed:
            self._resumed = _plus(self._resumed, counts)
            self._planned_resumed += planned
        self._report()

    def open(self, unit: int, counts: Counts) -> None:
        """`counts` are of the whole unit so far, not since the last call."""
        self._open[unit] = counts
        self._report()

    def _report(self) -> None:
        if self._tell is None:
            return
        total, planned = self._done, self._planned_done
        for unit, counts in self._open.items():
            total = _plus(total, counts)
            planned += min(counts.text_bytes, self._planned[unit])
        self._tell(
            Progress(
                doing=self._doing,
                units_done=self._num_done,
                units_total=len(self._planned),
                **{name: getattr(total, name) for name in COUNTED},
                rejects=total.rejects,
                share=planned / self._planned_total,
                resumed_tokens=self._resumed.tokens,
                resumed_text_bytes=self._resumed.text_bytes,
                resumed_share=self._planned_resumed / self._planned_total,
            )
        )


def _plus(a: Counts, b: Counts) -> Counts:
    sums = {name: getattr(a, name) + getattr(b, name) for name in COUNTED}
    return Counts(**sums, rejects=Counter(a.rejects) + Counter(b.rejects))
