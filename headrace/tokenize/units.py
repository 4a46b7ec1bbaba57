"""Cut the inputs into work units: the same for any number of workers, and known before any of them starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.dataeng.sources.base import Slice, SourceFile

_WANTED_UNITS: Final = (
    128  # as many as a large machine has cores, and no unit is more than a hundredth of the work
)
_SMALLEST: Final = 4 << 20  # of text: below it a unit costs more to begin than it takes to tokenize


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """What one worker takes, finishes, or does again."""

    index: int
    slices: tuple[Slice, ...]

    @property
    def text_bytes(self) -> int:
        """An estimate."""
        return sum(part.text_bytes for part in self.slices)

    @property
    def files(self) -> list[int]:
        """Positions of the source files it reads, ascending."""
        return sorted({part.file for part in self.slices})


def read_by(unit: Unit, sources: Sequence[SourceFile]) -> dict[int, SourceFile]:
    """The files that a unit reads, by position, without their slices: it has its own."""
    return {file: replace(sources[file], slices=()) for file in unit.files}


def unit_bytes(sources: Sequence[SourceFile], shard_bytes: int) -> int:
    """Text in a work unit, from the inputs alone: a large corpus fills about a shard a unit, a small one keeps all cores
    busy with smaller shards.

    Text is about twice its tokens in uint16 and as large as those in uint32, so two shards' worth of it fill one or two.
    """
    total = sum(part.text_bytes for part in _in_order(sources))
    return min(2 * shard_bytes, max(_SMALLEST, -(-total // _WANTED_UNITS)))


def plan_units(sources: Sequence[SourceFile], unit_bytes: int, *, first: int = 0) -> list[Unit]:
    """Consecutive slices in source order, until the next one would pass `unit_bytes` of estimated text. They are numbered
    from `first` on.
    """
    units: list[Unit] = []
    held: list[Slice] = []
    held_bytes = 0
    for part in _in_order(sources):
        if held and held_bytes + part.text_bytes > unit_bytes:
            units.append(Unit(index=first + len(units), slices=tuple(held)))
            held, held_bytes = [], 0
        held.append(part)
        held_bytes += part.text_bytes
    if held:
        units.append(Unit(index=first + len(units), slices=tuple(held)))
    return units


def _in_order(sources: Sequence[SourceFile]) -> Iterable[Slice]:
    for source in sources:
        yield from source.slices
