"""Slots (token, choice) sorted by expert. Gathers both ways follow from it: no atomics, so the same bits every time."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Order(NamedTuple):
    """tokens_S: int32, the token of each sorted place; inside an expert, tokens ascend.
    places_TK: int32, the sorted place of each slot.
    ends_E: int32, one past the last place of each expert; empty experts repeat the value before.
    """

    tokens_S: Tensor
    places_TK: Tensor
    ends_E: Tensor


def sort_by_expert(experts_TK: Tensor, num_experts: int) -> Order:
    sorted_S, slots_S = experts_TK.flatten().to(torch.int16).sort(stable=True)
    places_S = torch.empty_like(slots_S, dtype=torch.int32)
    places_S[slots_S] = torch.arange(slots_S.numel(), device=slots_S.device, dtype=torch.int32)
    bounds_E = torch.arange(num_experts, device=slots_S.device, dtype=torch.int16)
    return Order(
        (slots_S // experts_TK.shape[1]).int(),
        places_S.view_as(experts_TK),
        torch.searchsorted(sorted_S, bounds_E, right=True, out_int32=True),
    )


def by_place(values_TK: Tensor, places_TK: Tensor) -> Tensor:
    """[S]: a value of each slot, in sorted order."""
    values_S = torch.empty_like(values_TK).flatten()
    values_S[places_TK.flatten()] = values_TK.flatten()
    return values_S
