"""Tokens to expert order and back, both ways by gathers: no atomics, so the same bits every time."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Order(NamedTuple):
    """Slots (token, choice) sorted by expert; inside an expert they keep the order of tokens.

    slots_S: int64, the slot at each sorted place. places_S: its inverse.
    ends_E: int32, one past the last sorted place of each expert; empty experts repeat the value before.
    """

    slots_S: Tensor
    places_S: Tensor
    ends_E: Tensor


def sort_by_expert(experts_NK: Tensor, num_experts: int) -> Order:
    experts_S, slots_S = experts_NK.flatten().sort(stable=True)
    places_S = slots_S.argsort()
    bounds_E = torch.arange(num_experts, device=experts_S.device)
    return Order(slots_S, places_S, torch.searchsorted(experts_S, bounds_E, right=True, out_int32=True))


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, slots_S: Tensor, places_S: Tensor, k: int) -> Tensor:
        ctx.save_for_backward(places_S)
        ctx.k = k
        return x_ND[slots_S // k]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SD: Tensor) -> tuple[Tensor, None, None, None]:
        (places_S,) = ctx.saved_tensors
        return grad_SD[places_S].unflatten(0, (-1, ctx.k)).sum(dim=1), None, None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y_SD: Tensor, weights_NK: Tensor, slots_S: Tensor, places_S: Tensor) -> Tensor:
        ctx.save_for_backward(y_SD, weights_NK, slots_S, places_S)
        y_NKD = _by_token(y_SD, places_S, weights_NK)
        return torch.einsum("nkd,nk->nd", y_NKD, weights_NK.to(y_SD.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_ND: Tensor) -> tuple[Tensor, Tensor, None, None]:
        y_SD, weights_NK, slots_S, places_S = ctx.saved_tensors
        weights_S1 = weights_NK.flatten()[slots_S, None].to(grad_ND.dtype)
        grad_y_SD = grad_ND[slots_S // weights_NK.shape[1]] * weights_S1
        grad_weights_NK = torch.einsum("nkd,nd->nk", _by_token(y_SD, places_S, weights_NK), grad_ND)
        return grad_y_SD, grad_weights_NK.to(weights_NK.dtype), None, None


def _by_token(y_SD: Tensor, places_S: Tensor, weights_NK: Tensor) -> Tensor:
    gathered_SD = y_SD[places_S]
    return gathered_SD.view(*weights_NK.shape, y_SD.shape[1])


def permute(x_ND: Tensor, order: Order) -> Tensor:
    """[S, D]: the token of each slot, in expert order. Backward gathers and sums a token's K slots."""
    k = order.slots_S.numel() // max(x_ND.shape[0], 1)
    result: Tensor = _Permute.apply(x_ND, order.slots_S, order.places_S, k)
    return result


def combine(y_SD: Tensor, weights_NK: Tensor, order: Order) -> Tensor:
    """[N, D]: for each token, the sum of its experts' outputs times `weights_NK`."""
    result: Tensor = _Combine.apply(y_SD, weights_NK, order.slots_S, order.places_S)
    return result
