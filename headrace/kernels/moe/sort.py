"""`order.sort_by_expert` on the GPU: a counting sort in four launches.

count   how many slots of each block of slots go to each expert
sum     over the blocks before, and over the experts before (torch.cumsum)
place   a slot's place: slots of experts before + of its expert in blocks before + of its expert before it in its own
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from headrace.kernels.moe.order import Order

_BLOCK: Final = 128  # slots; each is compared with each


def sort_on_device(experts_TK: Tensor, num_experts: int) -> Order:
    """The same as `sort_by_expert`. experts_TK must not be empty."""
    experts_TK = experts_TK.contiguous()
    (T, K), S = experts_TK.shape, experts_TK.numel()
    blocks = triton.cdiv(S, _BLOCK)
    counts_BE = experts_TK.new_empty(blocks, num_experts, dtype=torch.int32)
    E = triton.next_power_of_2(num_experts)
    _count_kernel[(blocks,)](experts_TK, counts_BE, S, num_experts, E=E, BLOCK=_BLOCK)
    sums_BE = counts_BE.cumsum(dim=0, dtype=torch.int32)
    ends_E = sums_BE[-1].cumsum(dim=0, dtype=torch.int32)
    tokens_S = experts_TK.new_empty(S, dtype=torch.int32)
    places_TK = experts_TK.new_empty(T, K, dtype=torch.int32)
    _place_kernel[(blocks,)](
        experts_TK, counts_BE, sums_BE, ends_E, tokens_S, places_TK, S, num_experts, K=K, BLOCK=_BLOCK
    )
    return Order(tokens_S, places_TK, ends_E)


@triton.jit
def _count_kernel(experts_TK, counts_BE, S, num_experts, E: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    slots = block * BLOCK + tl.arange(0, BLOCK)
    experts = tl.load(experts_TK + slots, mask=slots < S, other=0).to(tl.int32)
    counts = tl.histogram(experts, E, mask=slots < S)
    columns = tl.arange(0, E)
    tl.store(counts_BE + block * num_experts + columns, counts, columns < num_experts)


@triton.jit
def _place_kernel(
    experts_TK,
    counts_BE,
    sums_BE,
    ends_E,
    tokens_S,
    places_TK,
    S,
    num_experts,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    block = tl.program_id(0)
    within = tl.arange(0, BLOCK)
    slots = block * BLOCK + within
    here = slots < S
    experts = tl.load(experts_TK + slots, mask=here, other=0).to(tl.int32)
    # The slots past the end come after all others, so they are counted by nobody.
    before = (experts[:, None] == tl.load(experts_TK + slots, mask=here, other=0).to(tl.int32)[None, :]) & (
        within[None, :] < within[:, None]
    )
    rank = tl.sum(before.to(tl.int32), axis=1)
    at = block * num_experts + experts
    in_blocks_before = tl.load(sums_BE + at, here, other=0) - tl.load(counts_BE + at, here, other=0)
    of_experts_before = tl.load(ends_E + experts - 1, here & (experts > 0), other=0)
    place = of_experts_before + in_blocks_before + rank
    tl.store(places_TK + slots, place, here)
    tl.store(tokens_S + place, slots // K, here)
