"""d_act = grad[tokens] @ down^T, and behind the product everything that follows from it element by element.

With a = silu(g) * u recomputed from h = (g, u), s = sigmoid(g) and the slot's weight w:

    d_weight = sum over F of d_act * a        (each tile of columns writes its part; they are added in order)
    d_gate   = w * d_act * u * s * (1 + g * (1 - s))
    d_up     = w * d_act * silu(g)
    act      = w * a, for the gradient of `down`
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headrace.kernels.moe.glu import INTERLEAVE
from headrace.kernels.moe.order import Order
from headrace.kernels.moe.tiles import cover, tile_at
from headrace.kernels.moe.tuned import Blocks, num_multiprocessors


def through_swiglu(
    grad_TD: Tensor, down_EFD: Tensor, h_SG: Tensor, weights_S: Tensor, order: Order, blocks: Blocks
) -> tuple[Tensor, Tensor, Tensor]:
    """d_h [S, G], weighted act [S, F], d_weights fp32 [S]."""
    (_, F, D), S = down_EFD.shape, h_SG.shape[0]
    num_n = triton.cdiv(F, blocks.n)
    d_h_SG, act_SF = h_SG.new_empty(S, 2 * F), h_SG.new_empty(S, F)
    parts_NS = weights_S.new_empty(num_n, S)
    tiles = cover(order.ends_E, S, blocks.m)
    num_tiles = tiles.limit * num_n
    grid = (min(num_tiles, num_multiprocessors(grad_TD.device)) if blocks.persistent else num_tiles,)
    _back_kernel[grid](
        grad_TD,
        order.tokens_S,
        TensorDescriptor.from_tensor(down_EFD, [1, blocks.n, blocks.k]),
        h_SG,
        weights_S,
        d_h_SG,
        act_SF,
        parts_NS,
        tiles.expert,
        tiles.row,
        tiles.total,
        order.ends_E,
        S,
        D,
        F,
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
    return d_h_SG, act_SF, parts_NS.sum(dim=0)


@triton.jit
def _back_kernel(
    grad_TD,
    tokens_S,
    down_EFD,
    h_SG,
    weights_S,
    d_h_SG,
    act_SF,
    parts_NS,
    tile_expert,
    tile_row,
    tile_total,
    ends_E,
    S,
    D,
    F,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    INTERLEAVE: tl.constexpr,
    EVEN_K: tl.constexpr,
    FLATTEN: tl.constexpr,
):
    num_m = tl.load(tile_total)
    num_n = tl.cdiv(F, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=FLATTEN):
        m, n = tile_at(tile, num_m, num_n, GROUP)
        e = tl.load(tile_expert + m)
        first = tl.load(tile_row + m)
        end = tl.load(ends_E + e)
        rows = first + tl.arange(0, BM)
        tokens = tl.load(tokens_S + rows, mask=rows < end, other=0).to(tl.int64)
        ks = tl.arange(0, BK)
        grad_ptrs = grad_TD + tokens[:, None] * D + ks[None, :]
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, D, BK):
            if EVEN_K:
                grad = tl.load(grad_ptrs)
            else:
                grad = tl.load(grad_ptrs, mask=(k + ks < D)[None, :], other=0.0)
            grad_ptrs += BK
            acc = tl.dot(grad, down_EFD.load([e, n * BN, k]).reshape(BN, BK).T, acc)
        weight = tl.load(weights_S + rows, mask=rows < end, other=0.0)
        # A quarter of the columns at a time: with all of them, six values an element do not fit the registers.
        Q: tl.constexpr = BN // 4
        left, right = tl.split(acc.reshape(BM, 2, BN // 2).permute(0, 2, 1))
        q0, q1 = tl.split(left.reshape(BM, 2, Q).permute(0, 2, 1))
        q2, q3 = tl.split(right.reshape(BM, 2, Q).permute(0, 2, 1))
        col = n * BN
        part = _element_wise(q0, weight, rows, end, col, h_SG, d_h_SG, act_SF, F, Q, INTERLEAVE)
        part += _element_wise(q1, weight, rows, end, col + Q, h_SG, d_h_SG, act_SF, F, Q, INTERLEAVE)
        part += _element_wise(q2, weight, rows, end, col + 2 * Q, h_SG, d_h_SG, act_SF, F, Q, INTERLEAVE)
        part += _element_wise(q3, weight, rows, end, col + 3 * Q, h_SG, d_h_SG, act_SF, F, Q, INTERLEAVE)
        tl.store(parts_NS + n.to(tl.int64) * S + rows, part, rows < end)


@triton.jit
def _element_wise(
    d_act, weight, rows, end, col, h_SG, d_h_SG, act_SF, F, WIDTH: tl.constexpr, INTERLEAVE: tl.constexpr
):
    cols = col + tl.arange(0, WIDTH)
    # The compiler does not see through the division that neighbours stay neighbours.
    gate_cols = cols // INTERLEAVE * (2 * INTERLEAVE) + cols % INTERLEAVE
    gate_cols = tl.max_contiguous(tl.multiple_of(gate_cols, INTERLEAVE), INTERLEAVE)
    mask = (rows < end)[:, None] & (cols < F)[None, :]
    places = rows[:, None].to(tl.int64)
    at = places * (2 * F) + gate_cols[None, :]
    gate = tl.load(h_SG + at, mask, other=0.0).to(tl.float32)
    up = tl.load(h_SG + at + INTERLEAVE, mask, other=0.0).to(tl.float32)
    sig = 1 / (1 + tl.exp(-gate))
    act = gate * sig * up
    d_weight = tl.sum(tl.where(mask, d_act * act, 0.0), axis=1)
    d_act = d_act * weight[:, None]
    d_gate = d_act * up * sig * (1 + gate * (1 - sig))
    tl.store(d_h_SG + at, d_gate.to(d_h_SG.dtype.element_ty), mask)
    tl.store(d_h_SG + at + INTERLEAVE, (d_act * gate * sig).to(d_h_SG.dtype.element_ty), mask)
    weighted = (act * weight[:, None]).to(act_SF.dtype.element_ty)
    tl.store(act_SF + places * F + cols[None, :], weighted, mask)
    return d_weight
