"""out[t] = sum over k of weight[t, k] * y[place of (t, k)], in fp32 and in the order of k: gathers, so no atomics."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def combine(y_SD: Tensor, places_TK: Tensor, weights_TK: Tensor | None) -> Tensor:
    """[T, D]. weights_TK: fp32, or None for a plain sum."""
    (T, K), D = places_TK.shape, y_SD.shape[1]
    out_TD = y_SD.new_empty(T, D)
    block = min(2048, triton.next_power_of_2(D))
    _combine_kernel[(T, triton.cdiv(D, block))](
        y_SD, places_TK, weights_TK, out_TD, D, K=K, WEIGHTED=weights_TK is not None, BD=block, num_warps=8
    )
    return out_TD


@triton.jit
def _combine_kernel(
    y_SD, places_TK, weights_TK, out_TD, D, K: tl.constexpr, WEIGHTED: tl.constexpr, BD: tl.constexpr
):
    t = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BD + tl.arange(0, BD)
    acc = tl.zeros((BD,), tl.float32)
    for k in tl.static_range(K):
        place = tl.load(places_TK + t * K + k).to(tl.int64)
        y = tl.load(y_SD + place * D + cols, mask=cols < D, other=0.0).to(tl.float32)
        if WEIGHTED:
            y *= tl.load(weights_TK + t * K + k)
        acc += y
    tl.store(out_TD + t * D + cols, acc.to(out_TD.dtype.element_ty), mask=cols < D)
