"""A mixture stage's weights as intervals of [0, 2**64): exact, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.errors import UsageError


@dataclass(frozen=True, slots=True)
class Intervals:
    """low, top: uint64 [K], inclusive; used: bool [K], False where the weight is 0 (low and top mean nothing)."""

    low: NDArray[np.uint64]
    top: NDArray[np.uint64]
    used: NDArray[np.bool_]


def check_weight(weight: float, what: str) -> float:
    """Returns `weight` if it can be a share of a mixture: a finite number >= 0."""
    if type(weight) not in (int, float) or not 0 <= weight < float("inf"):
        raise UsageError(f"{what}: weight {weight!r}; expected a finite number >= 0")
    return weight


def intervals(weights: Sequence[float]) -> Intervals:
    """Cuts [0, 2**64) in proportion to `weights`, taken as the decimal numbers they print as.

    Raises:
        UsageError: no positive weight, or one so small that its interval holds no point.
    """
    exact = [Fraction(repr(weight)) for weight in weights]
    total = sum(exact)
    if total == 0:
        raise UsageError("every weight of the mixture is 0; give at least one source a positive weight")
    low, top, used = [], [], []
    cumulative, below = Fraction(0), 0
    for weight, value in zip(weights, exact, strict=True):
        cumulative += value
        above = int(cumulative * (1 << 64) / total)
        if value > 0 and above == below:
            raise UsageError(
                f"weight {weight!r} is under 2**-64 of the mixture; no sample would ever come from it"
            )
        low.append(below if value else 0)
        top.append(above - 1 if value else 0)
        used.append(value > 0)
        below = above
    return Intervals(np.array(low, np.uint64), np.array(top, np.uint64), np.array(used, np.bool_))
