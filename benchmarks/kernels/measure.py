"""Time on the device: events around single calls with a flushed L2, everything that is compared taken in turns.

A GPU under load lowers its clock until it is within its power, so a rate measured cold is not a limit for a rate
measured hot: each round times every call once, and medians of the rounds are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch

_L2_BYTES = 256 << 20  # more than the cache of any GPU
DENSE: str = "dense"
_DENSE_SIZE = 8192


def in_turns(
    calls: Mapping[str, Callable[[], Any]], *, rounds: int = 12, warm_up: int = 3
) -> dict[str, float]:
    """The median time of each call in milliseconds."""
    flush = torch.empty(_L2_BYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(warm_up + rounds):
        for name, call in calls.items():
            flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            if number >= warm_up:
                times[name].append(start.elapsed_time(end))
    return {name: statistics.median(each) for name, each in times.items()}


class Dense:
    """R: the rate of a bf16 product of random 8192^3 matrices by the library that torch uses."""

    def __init__(self) -> None:
        shape = (2, _DENSE_SIZE, _DENSE_SIZE)
        self._a, self._b = torch.randn(shape, device="cuda", dtype=torch.bfloat16).unbind()

    def __call__(self) -> torch.Tensor:
        return self._a @ self._b

    @staticmethod
    def rate(milliseconds: float) -> float:
        """FLOP/s."""
        return 2e3 * _DENSE_SIZE**3 / milliseconds


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())
