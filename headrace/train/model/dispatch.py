"""Tokens to expert order and back, both ways by gathers: no atomics, so the same bits every time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headrace.kernels.moe.order import Order, by_place


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, tokens_S: Tensor, places_NK: Tensor) -> Tensor:
        ctx.save_for_backward(places_NK)
        return x_ND[tokens_S]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SD: Tensor) -> tuple[Tensor, None, None]:
        (places_NK,) = ctx.saved_tensors
        return grad_SD[places_NK].sum(dim=1), None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y_SD: Tensor, weights_NK: Tensor, tokens_S: Tensor, places_NK: Tensor) -> Tensor:
        ctx.save_for_backward(y_SD, weights_NK, tokens_S, places_NK)
        return torch.einsum("nkd,nk->nd", y_SD[places_NK], weights_NK.to(y_SD.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, Tensor, None, None]:
        y_SD, weights_NK, tokens_S, places_NK = ctx.saved_tensors
        grad_y_SD = grad_ND[tokens_S] * by_place(weights_NK, places_NK)[:, None].to(grad_ND.dtype)
        grad_weights_NK = torch.einsum("nkd,nd->nk", y_SD[places_NK], grad_ND)
        return grad_y_SD, grad_weights_NK.to(weights_NK.dtype), None, None


def permute(x_ND: Tensor, order: Order) -> Tensor:
    """[S, D]: the token of each slot, in expert order. Backward gathers and sums a token's K slots."""
    result: Tensor = _Permute.apply(x_ND, order.tokens_S, order.places_TK)
    return result


def combine(y_SD: Tensor, weights_NK: Tensor, order: Order) -> Tensor:
    """[N, D]: for each token, the sum of its experts' outputs times `weights_NK`."""
    result: Tensor = _Combine.apply(y_SD, weights_NK, order.tokens_S, order.places_TK)
    return result
