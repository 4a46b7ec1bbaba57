"""Block sizes, per kernel, shape and GPU: measured ahead (benchmarks/kernels), never at run time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class Blocks:
    """m, n, k: sides of a tile. group: tiles of rows that run together. persistent: one program a multiprocessor, the
    loads of whose next tile overlap with the end of the one before.
    """

    m: int = 128
    n: int = 256
    k: int = 64
    warps: int = 8
    stages: int = 4
    group: int = 16
    persistent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The blocks of every kernel."""

    up: Blocks = Blocks(persistent=True)
    down: Blocks = Blocks(persistent=True)
    back: Blocks = Blocks(stages=3)
    d_input: Blocks = Blocks(persistent=True)
    d_gate_up: Blocks = Blocks(stages=5)
    d_down: Blocks = Blocks(n=128, stages=5)


HOPPER: Final = Config()
# (model width, expert width): what was measured to be better than the default.
_H200: Final = {
    (4096, 14336): replace(HOPPER, d_input=Blocks(), d_gate_up=Blocks(stages=6, group=4)),
}


@cache
def config_for(width: int, expert_width: int, device: torch.device) -> Config:
    if device.type == "cuda" and "H200" in torch.cuda.get_device_name(device):
        return _H200.get((width, expert_width), HOPPER)
    return HOPPER


@cache
def num_multiprocessors(device: torch.device) -> int:
    """1 in the interpreter, where a persistent program then does every tile."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
