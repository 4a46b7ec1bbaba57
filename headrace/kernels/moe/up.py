"""h = x[tokens] @ gate_up, and act = silu(gate) * up behind the product: the rows are gathered as they are loaded."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headrace.kernels.moe.columns import split_columns
from headrace.kernels.moe.glu import INTERLEAVE
from headrace.kernels.moe.order import Order
from headrace.kernels.moe.tiles import cover, tile_at
from headrace.kernels.moe.tuned import Blocks, num_multiprocessors


def up(x_TD: Tensor, gate_up_EDG: Tensor, order: Order, blocks: Blocks) -> tuple[Tensor, Tensor]:
    """h_SG, act_SF."""
    (_, D, G), S = gate_up_EDG.shape, order.tokens_S.numel()
    h_SG, act_SF = x_TD.new_empty(S, G), x_TD.new_empty(S, G // 2)
    tiles = cover(order.ends_E, S, blocks.m)
    num_tiles = tiles.limit * triton.cdiv(G, blocks.n)
    grid = (min(num_tiles, num_multiprocessors(x_TD.device)) if blocks.persistent else num_tiles,)
    _up_kernel[grid](
        x_TD,
        order.tokens_S,
        TensorDescriptor.from_tensor(gate_up_EDG, [1, blocks.k, blocks.n]),
        h_SG,
        act_SF,
        tiles.expert,
        tiles.row,
        tiles.total,
        order.ends_E,
        D,
        G,
        BM=blocks.m,
        BN=blocks.n,
        BK=blocks.k,
        GROUP=blocks.group,
        INTERLEAVE=INTERLEAVE,
        EVEN_K=D % blocks.k == 0,
        FLATTEN=blocks.persistent,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )
    return h_SG, act_SF


@triton.jit
def _up_kernel(
    x_TD,
    tokens_S,
    gate_up_EDG,
    h_SG,
    act_SF,
    tile_expert,
    tile_row,
    tile_total,
    ends_E,
    D,
    G,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    INTERLEAVE: tl.constexpr,
    EVEN_K: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    num_m = tl.load(tile_total)
    num_n = tl.cdiv(G, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=FLATTEN):
        m, n = tile_at(tile, num_m, num_n, GROUP)
        e = tl.load(tile_expert + m)
        first = tl.load(tile_row + m)
        end = tl.load(ends_E + e)
        rows = first + tl.arange(0, BM)
        tokens = tl.load(tokens_S + rows, mask=rows < end, other=0).to(tl.int64)
        ks = tl.arange(0, BK)
        x_ptrs = x_TD + tokens[:, None] * D + ks[None, :]
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, D, BK):
            if EVEN_K:
                x = tl.load(x_ptrs)
            else:
                x = tl.load(x_ptrs, mask=(k + ks < D)[None, :], other=0.0)
            x_ptrs += BK
            acc = tl.dot(x, gate_up_EDG.load([e, k, n * BN]).reshape(BK, BN), acc)
        places = rows[:, None].to(tl.int64)
        g_cols = n * BN + tl.arange(0, BN)
        here = (rows < end)[:, None]
        tl.store(
            h_SG + places * G + g_cols[None, :], acc.to(h_SG.dtype.element_ty), here & (g_cols < G)[None, :]
        )
        gate, up = split_columns(acc, BM, BN, INTERLEAVE)
        act = gate / (1 + tl.exp(-gate)) * up
        f_cols = n * (BN // 2) + tl.arange(0, BN // 2)
        act_ptrs = act_SF + places * (G // 2) + f_cols[None, :]
        tl.store(act_ptrs, act.to(act_SF.dtype.element_ty), here & (f_cols < G // 2)[None, :])
