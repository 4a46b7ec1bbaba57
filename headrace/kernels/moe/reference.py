"""What the kernels compute, expert by expert. Slow on purpose: this is the definition."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu

from headrace.kernels.moe.glu import split


def moe_mlp_reference(
    x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor, weights_TK: Tensor, experts_TK: Tensor
) -> Tensor:
    """[T, D]: for each token the sum over its experts of weight times SwiGLU network; differentiable, in any dtype."""
    out_TD = torch.zeros_like(x_TD)
    for e, (gate_up_DG, down_FD) in enumerate(zip(gate_up_EDG, down_EFD, strict=True)):
        tokens, choices = (experts_TK == e).nonzero(as_tuple=True)
        gate, up = split(x_TD[tokens] @ gate_up_DG)
        y = (silu(gate) * up) @ down_FD
        out_TD = out_TD.index_add(0, tokens, y * weights_TK[tokens, choices, None].to(y.dtype))
    return out_TD
