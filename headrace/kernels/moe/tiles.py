"""Tiles of rows that cover each expert's slots, listed on the device: their number never comes to the host."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Tiles(NamedTuple):
    """Blocks of `block` places, none of which holds two experts. Their number is known to the device only: there are
    at most `limit`, and `total` says how many.

    expert, row: int32 [limit], the expert and the first place of each tile. total: int32 [1].
    """

    expert: Tensor
    row: Tensor
    total: Tensor
    limit: int


def cover(ends_E: Tensor, num_slots: int, block: int) -> Tiles:
    num_experts = ends_E.numel()
    limit = num_slots // block + min(num_experts, num_slots)
    expert, row = ends_E.new_empty(2, limit).unbind()
    total = ends_E.new_empty(1)
    _cover_kernel[(num_experts,)](
        ends_E, expert, row, total, num_experts, BLOCK=block, E=triton.next_power_of_2(num_experts), CHUNK=64
    )
    return Tiles(expert, row, total, limit)


@triton.jit
def _cover_kernel(
    ends_E, expert, row, total, num_experts, BLOCK: tl.constexpr, E: tl.constexpr, CHUNK: tl.constexpr
):
    """One program an expert: each adds up the tiles of the experts before it, and lists its own."""
    e = tl.program_id(0)
    others = tl.arange(0, E)
    ends = tl.load(ends_E + others, mask=others < num_experts, other=0)
    begins = tl.load(ends_E + others - 1, mask=(others > 0) & (others < num_experts), other=0)
    tiles = tl.where(others < num_experts, tl.cdiv(ends - begins, BLOCK), 0)
    first = tl.sum(tl.where(others < e, tiles, 0), axis=0)
    mine = tl.sum(tl.where(others == e, tiles, 0), axis=0)
    begin = tl.sum(tl.where(others == e, begins, 0), axis=0)
    if e == num_experts - 1:
        tl.store(total, first + mine)
    for chunk in range(0, mine, CHUNK):
        number = chunk + tl.arange(0, CHUNK)
        tl.store(expert + first + number, tl.zeros((CHUNK,), tl.int32) + e, number < mine)
        tl.store(row + first + number, begin + number * BLOCK, number < mine)


@triton.jit
def tile_at(tile, num_m, num_n, GROUP: tl.constexpr):
    """(m, n) of a tile. GROUP blocks of rows are taken together, so that neighbours in time share rows and columns in
    the L2 cache.
    """
    per_group = GROUP * num_n
    first = tile // per_group * GROUP
    size = min(num_m - first, GROUP)
    return first + tile % per_group % size, tile % per_group // size
