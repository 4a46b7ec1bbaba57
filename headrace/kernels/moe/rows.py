"""Rows of slots, each times the matrix of its expert: y = act @ down, and d_x = d_h @ gate_up^T."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headrace.kernels.moe.tiles import cover, tile_at
from headrace.kernels.moe.tuned import Blocks, num_multiprocessors


def rows_times_expert(
    a_SK: Tensor, b_EKN: Tensor, ends_E: Tensor, blocks: Blocks, *, transpose: bool = False
) -> Tensor:
    """[S, N]. transpose: `b` is [E, N, K]."""
    (S, K), N = a_SK.shape, b_EKN.shape[1 if transpose else 2]
    out_SN = a_SK.new_empty(S, N)
    tiles = cover(ends_E, S, blocks.m)
    num_tiles = tiles.limit * triton.cdiv(N, blocks.n)
    grid = (min(num_tiles, num_multiprocessors(a_SK.device)) if blocks.persistent else num_tiles,)
    _rows_kernel[grid](
        TensorDescriptor.from_tensor(a_SK, [blocks.m, blocks.k]),
        TensorDescriptor.from_tensor(
            b_EKN, [1, blocks.n, blocks.k] if transpose else [1, blocks.k, blocks.n]
        ),
        out_SN,
        tiles.expert,
        tiles.row,
        tiles.total,
        ends_E,
        K,
        N,
        BM=blocks.m,
        BN=blocks.n,
        BK=blocks.k,
        GROUP=blocks.group,
        TRANSPOSE=transpose,
        FLATTEN=blocks.persistent,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )
    return out_SN


@triton.jit
def _rows_kernel(
    a_SK,
    b_EKN,
    out_SN,
    tile_expert,
    tile_row,
    tile_total,
    ends_E,
    K,
    N,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSE: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    num_m = tl.load(tile_total)
    num_n = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=FLATTEN):
        m, n = tile_at(tile, num_m, num_n, GROUP)
        e = tl.load(tile_expert + m)
        first = tl.load(tile_row + m)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            # Rows past the expert's end belong to the next one: computed, and not stored.
            a = a_SK.load([first, k])
            if TRANSPOSE:
                b = b_EKN.load([e, n * BN, k]).reshape(BN, BK).T
            else:
                b = b_EKN.load([e, k, n * BN]).reshape(BK, BN)
            acc = tl.dot(a, b, acc)
        rows = first + tl.arange(0, BM)
        cols = n * BN + tl.arange(0, BN)
        mask = (rows < tl.load(ends_E + e))[:, None] & (cols < N)[None, :]
        out_ptrs = out_SN + rows[:, None].to(tl.int64) * N + cols[None, :]
        tl.store(out_ptrs, acc.to(out_SN.dtype.element_ty), mask)
