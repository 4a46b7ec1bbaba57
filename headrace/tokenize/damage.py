"""Go over a unit whose files may be damaged: the same treatment for every pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.dataeng.sources.base import Slice
from headrace.errors import DamageError
from headrace.tokenize.units import Unit

R = TypeVar("R")


class SliceDamage(DamageError):
    """Damage, with the slice it is in and how many of its rows are to be used all the same."""

    def __init__(self, message: str, part: Slice, intact_rows: int) -> None:
        super().__init__(message)
        self.part, self.intact_rows = part, intact_rows


def past_damage(unit: Unit, attempt: Callable[[Mapping[Slice, int]], R], *, quarantine: bool) -> R:
    """Calls `attempt` with the slices of which only so many first rows are to be used, until it meets no others.

    Rows of a slice may already have been used when its damage is met, so each attempt begins again: the first time to see
    whether the damage is in the file or was on the way, then without any of them.

    Raises:
        SliceDamage: what `attempt` raised, twice for the same slice, unless it is to be quarantined.
    """
    damaged = {part: 0 for part in unit.slices if quarantine and part.damage is not None}
    seen: set[Slice] = set()
    while True:
        try:
            return attempt(damaged)
        except SliceDamage as error:
            if error.part in seen:
                if not quarantine:
                    raise
                damaged[error.part] = error.intact_rows
            seen.add(error.part)
