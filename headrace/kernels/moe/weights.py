"""out[e] = a[slots of e]^T @ b[slots of e]: the gradients of the matrices. One of the two may be gathered by token."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headrace.kernels.moe.order import Order
from headrace.kernels.moe.tiles import tile_at
from headrace.kernels.moe.tuned import Blocks


def expert_products(
    a: Tensor, b: Tensor, order: Order, blocks: Blocks, *, gather_a: bool = False, gather_b: bool = False
) -> Tensor:
    """[E, M, N], zero where an expert has no slots. a: [S, M] or, gathered, [T, M]; b likewise with N."""
    E, M, N = order.ends_E.numel(), a.shape[1], b.shape[1]
    out_EMN = a.new_empty(E, M, N)
    grid = (E * triton.cdiv(M, blocks.m) * triton.cdiv(N, blocks.n),)
    _weights_kernel[grid](
        a,
        b,
        TensorDescriptor.from_tensor(a, [blocks.k, blocks.m]),
        TensorDescriptor.from_tensor(b, [blocks.k, blocks.n]),
        order.tokens_S,
        out_EMN,
        order.ends_E,
        M,
        N,
        BM=blocks.m,
        BN=blocks.n,
        BK=blocks.k,
        GROUP=blocks.group,
        GATHER_A=gather_a,
        GATHER_B=gather_b,
        EVEN_M=M % blocks.m == 0,
        EVEN_N=N % blocks.n == 0,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )
    return out_EMN


@triton.jit
def _weights_kernel(
    a,
    b,
    a_blocks,
    b_blocks,
    tokens_S,
    out_EMN,
    ends_E,
    M,
    N,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    GATHER_A: tl.constexpr,
    GATHER_B: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
):
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    e = tl.program_id(0) // (num_m * num_n)
    m, n = tile_at(tl.program_id(0) % (num_m * num_n), num_m, num_n, GROUP)
    begin = tl.load(ends_E + e - 1, mask=e > 0, other=0)
    end = tl.load(ends_E + e)
    whole = begin + (end - begin) // BK * BK
    ms = m * BM + tl.arange(0, BM)
    ns = n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    # Whole blocks of slots need no masks; a mask on either operand would send it through registers.
    for k in range(begin, whole, BK):
        rows = k + tl.arange(0, BK)
        if GATHER_A:
            at = tl.load(tokens_S + rows).to(tl.int64)
            if EVEN_M:
                a_KM = tl.load(a + at[:, None] * M + ms[None, :])
            else:
                a_KM = tl.load(a + at[:, None] * M + ms[None, :], mask=(ms < M)[None, :], other=0.0)
        else:
            a_KM = a_blocks.load([k, m * BM])
        if GATHER_B:
            at = tl.load(tokens_S + rows).to(tl.int64)
            if EVEN_N:
                b_KN = tl.load(b + at[:, None] * N + ns[None, :])
            else:
                b_KN = tl.load(b + at[:, None] * N + ns[None, :], mask=(ns < N)[None, :], other=0.0)
        else:
            b_KN = b_blocks.load([k, n * BN])
        acc = tl.dot(a_KM.T, b_KN, acc)
    if whole < end:
        rows = whole + tl.arange(0, BK)
        here = rows < end
        tokens = tl.load(tokens_S + rows, mask=here, other=0).to(tl.int64)
        a_rows = tokens if GATHER_A else rows.to(tl.int64)
        b_rows = tokens if GATHER_B else rows.to(tl.int64)
        a_KM = tl.load(
            a + a_rows[:, None] * M + ms[None, :], mask=here[:, None] & (ms < M)[None, :], other=0.0
        )
        b_KN = tl.load(
            b + b_rows[:, None] * N + ns[None, :], mask=here[:, None] & (ns < N)[None, :], other=0.0
        )
        acc = tl.dot(a_KM.T, b_KN, acc)
    mask = (ms < M)[:, None] & (ns < N)[None, :]
    out_ptrs = out_EMN + (e.to(tl.int64) * M + ms[:, None]) * N + ns[None, :]
    tl.store(out_ptrs, acc.to(out_EMN.dtype.element_ty), mask)
