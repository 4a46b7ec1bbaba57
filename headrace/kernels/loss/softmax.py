"""Logits to losses, and in their place the gradient of the losses' sum: softmax minus one at the label."""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK: Final = 4096


def softmax_gradient_(logits_CV: Tensor, labels_C: Tensor, ignored: int) -> Tensor:
    """fp32 [C]: the loss of each row, 0 where the label is `ignored`; `logits_CV` becomes the gradient."""
    (C, V) = logits_CV.shape
    losses_C = torch.empty(C, dtype=torch.float32, device=logits_CV.device)
    block = min(_BLOCK, triton.next_power_of_2(V))
    _kernel[(C,)](logits_CV, labels_C, losses_C, V, ignored, BLOCK=block, num_warps=8)
    return losses_C


@triton.jit
def _kernel(logits_CV, labels_C, losses_C, V, ignored, BLOCK: tl.constexpr):
    """A row a program. The second pass finds in the L2 cache what the first has read."""
    row = tl.program_id(0).to(tl.int64)
    logits = logits_CV + row * V
    label = tl.load(labels_C + row)
    cols = tl.arange(0, BLOCK)
    dtype = logits_CV.dtype.element_ty
    if label == ignored:
        tl.store(losses_C + row, 0.0)
        for begin in range(0, V, BLOCK):
            tl.store(logits + begin + cols, tl.zeros((BLOCK,), dtype), begin + cols < V)
    else:
        # Online softmax (arXiv:1805.02867), one maximum and one sum a lane.
        high = tl.full((BLOCK,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for begin in range(0, V, BLOCK):
            x = tl.load(logits + begin + cols, begin + cols < V, other=float("-inf")).to(tl.float32)
            higher = tl.maximum(high, x)
            # A lane that has seen nothing yet has no maximum to subtract.
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            total = total * tl.exp(high - shift) + tl.exp(x - shift)
            high = higher
        top = tl.max(high, axis=0)
        log_sum = top + tl.log(tl.sum(total * tl.exp(high - top), axis=0))
        at_label = tl.load(logits + label).to(tl.float32)
        tl.store(losses_C + row, log_sum - at_label)
        tl.debug_barrier()  # the label's logit is read before it is overwritten
        for begin in range(0, V, BLOCK):
            here = begin + cols < V
            x = tl.load(logits + begin + cols, here, other=float("-inf")).to(tl.float32)
            gradient = tl.exp(x - log_sum) - tl.where(begin + cols == label, 1.0, 0.0)
            tl.store(logits + begin + cols, gradient.to(dtype), here)
