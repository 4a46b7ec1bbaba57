"""`moe_mlp`: one operator for `torch.compile`, with its gradient."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from headrace.kernels.moe.back import through_swiglu
from headrace.kernels.moe.combine import combine
from headrace.kernels.moe.glu import INTERLEAVE
from headrace.kernels.moe.order import Order, by_place, sort_by_expert
from headrace.kernels.moe.rows import rows_times_expert
from headrace.kernels.moe.sort import sort_on_device
from headrace.kernels.moe.tuned import config_for
from headrace.kernels.moe.up import up
from headrace.kernels.moe.weights import expert_products

_ALIGNMENT: Final = INTERLEAVE  # elements; the copy engine takes rows that begin on borders of 16 bytes
_MAX_EXPERTS: Final = 512


def supports(x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor) -> bool:
    """Whether `moe_mlp` computes this on this device: 16-bit floats on Hopper or newer, aligned widths."""
    return (
        x_TD.is_cuda
        and torch.cuda.get_device_capability(x_TD.device) >= (9, 0)
        and x_TD.dtype == gate_up_EDG.dtype == down_EFD.dtype
        and x_TD.dtype in (torch.bfloat16, torch.float16)
        and down_EFD.shape[0] <= _MAX_EXPERTS
        and all(size % _ALIGNMENT == 0 for size in down_EFD.shape[1:])
    )


def moe_mlp(
    x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor, weights_TK: Tensor, experts_TK: Tensor
) -> Tensor:
    """[T, D]: for each token the sum over its experts of weight times SwiGLU network (arXiv:2002.05202).

    x_TD: [T, D]. gate_up_EDG: [E, D, 2F], columns as `glu` says. down_EFD: [E, F, D], all of one 16-bit dtype.
    weights_TK: fp32. experts_TK: integers below E. Differentiable in all but the last. The same bits every time.

    Kept for the backward pass: x_TD, [T*K, 2F] pre-activations and 2*T*K integers (the scheme of SonicMoE,
    arXiv:2512.14080).
    """
    out_TD: Tensor = _forward(x_TD, gate_up_EDG, down_EFD, weights_TK.float(), experts_TK)[0]
    return out_TD


@torch.library.custom_op("headrace::moe_mlp", mutates_args=())
def _forward(
    x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor, weights_TK: Tensor, experts_TK: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """out_TD, h_SG, tokens_S, places_TK, ends_E."""
    x_TD, weights_TK = x_TD.contiguous(), weights_TK.contiguous()
    gate_up_EDG, down_EFD = gate_up_EDG.contiguous(), down_EFD.contiguous()
    E, F, D = down_EFD.shape
    if not experts_TK.numel():
        return x_TD.new_zeros(x_TD.shape), x_TD.new_empty(0, 2 * F), *sort_by_expert(experts_TK, E)
    order = sort_on_device(experts_TK, E)
    config = config_for(D, F, x_TD.device)
    h_SG, act_SF = up(x_TD, gate_up_EDG, order, config.up)
    y_SD = rows_times_expert(act_SF, down_EFD, order.ends_E, config.down)
    return combine(y_SD, order.places_TK, weights_TK), h_SG, *order


@_forward.register_fake
def _(
    x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor, _weights_TK: Tensor, experts_TK: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    S, E = experts_TK.numel(), down_EFD.shape[0]
    return (
        x_TD.new_empty(x_TD.shape),
        x_TD.new_empty(S, gate_up_EDG.shape[2]),
        experts_TK.new_empty(S, dtype=torch.int32),
        experts_TK.new_empty(experts_TK.shape, dtype=torch.int32),
        experts_TK.new_empty(E, dtype=torch.int32),
    )


@torch.library.custom_op("headrace::moe_mlp_backward", mutates_args=())
def _backward(
    grad_TD: Tensor,
    x_TD: Tensor,
    gate_up_EDG: Tensor,
    down_EFD: Tensor,
    weights_TK: Tensor,
    h_SG: Tensor,
    tokens_S: Tensor,
    places_TK: Tensor,
    ends_E: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, gate_up, down and weights."""
    grad_TD, x_TD = grad_TD.contiguous(), x_TD.contiguous()
    gate_up_EDG, down_EFD = gate_up_EDG.contiguous(), down_EFD.contiguous()
    if not places_TK.numel():
        return tuple(torch.zeros_like(t) for t in (x_TD, gate_up_EDG, down_EFD, weights_TK))  # type: ignore[return-value]
    order = Order(tokens_S, places_TK, ends_E)
    _, F, D = down_EFD.shape
    config = config_for(D, F, x_TD.device)
    weights_S = by_place(weights_TK, places_TK)
    d_h_SG, act_SF, d_weights_S = through_swiglu(grad_TD, down_EFD, h_SG, weights_S, order, config.back)
    d_down = expert_products(act_SF, grad_TD, order, config.d_down, gather_b=True)
    del act_SF
    d_gate_up = expert_products(x_TD, d_h_SG, order, config.d_gate_up, gather_a=True)
    d_x_SD = rows_times_expert(d_h_SG, gate_up_EDG, ends_E, config.d_input, transpose=True)
    return combine(d_x_SD, places_TK, None), d_gate_up, d_down, d_weights_S[places_TK]


@_backward.register_fake
def _(
    _grad_TD: Tensor,
    x_TD: Tensor,
    gate_up_EDG: Tensor,
    down_EFD: Tensor,
    weights_TK: Tensor,
    _h_SG: Tensor,
    _tokens_S: Tensor,
    _places_TK: Tensor,
    _ends_E: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        x_TD.new_empty(x_TD.shape),
        gate_up_EDG.new_empty(gate_up_EDG.shape),
        down_EFD.new_empty(down_EFD.shape),
        weights_TK.new_empty(weights_TK.shape),
    )


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    x_TD, gate_up_EDG, down_EFD, weights_TK, _ = inputs
    _, h_SG, tokens_S, places_TK, ends_E = output
    ctx.mark_non_differentiable(h_SG, tokens_S, places_TK, ends_E)
    ctx.save_for_backward(x_TD, gate_up_EDG, down_EFD, weights_TK, h_SG, tokens_S, places_TK, ends_E)


def _gradients(ctx: Any, grad_TD: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    return (*_backward(grad_TD, *ctx.saved_tensors), None)


_forward.register_autograd(_gradients, setup_context=_keep)
