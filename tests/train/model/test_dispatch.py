from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from headrace.kernels.moe.order import by_place, sort_by_expert
from headrace.train.model.dispatch import combine, permute

shapes = st.tuples(st.integers(1, 13), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**31))


def draw(shape: tuple[int, int, int, int]) -> tuple[Tensor, Tensor, Tensor, int]:
    tokens, k, width, seed = shape
    generator = torch.Generator().manual_seed(seed)
    num_experts = k + 3  # more experts than choices, so that some stay empty
    experts_NK = torch.stack([torch.randperm(num_experts, generator=generator)[:k] for _ in range(tokens)])
    x_ND = torch.randn(tokens, width, dtype=torch.float64, generator=generator, requires_grad=True)
    weights_NK = torch.rand(tokens, k, dtype=torch.float64, generator=generator, requires_grad=True)
    return x_ND, weights_NK, experts_NK, num_experts


@given(shapes)
@settings(max_examples=40, deadline=None)
def test_slots_are_sorted_by_expert_and_keep_token_order_inside(shape: tuple[int, int, int, int]) -> None:
    _, _, experts_NK, num_experts = draw(shape)
    order = sort_by_expert(experts_NK, num_experts)
    k = experts_NK.shape[1]
    expected = sorted(range(experts_NK.numel()), key=lambda slot: (int(experts_NK.flatten()[slot]), slot))
    assert order.tokens_S.tolist() == [slot // k for slot in expected]
    assert (
        by_place(torch.arange(experts_NK.numel()).view_as(experts_NK), order.places_TK).tolist() == expected
    )
    counts = torch.diff(order.ends_E, prepend=torch.zeros(1, dtype=torch.int32))
    assert counts.tolist() == torch.bincount(experts_NK.flatten(), minlength=num_experts).tolist()


@given(shapes)
@settings(max_examples=25, deadline=None)
def test_permute_then_combine_equals_a_loop_over_tokens(shape: tuple[int, int, int, int]) -> None:
    x_ND, weights_NK, experts_NK, num_experts = draw(shape)
    scale_E = torch.arange(1.0, num_experts + 1, dtype=torch.float64)
    order = sort_by_expert(experts_NK, num_experts)
    y_SD = permute(x_ND, order) * scale_E[by_place(experts_NK, order.places_TK), None]
    expected = torch.stack(
        [
            sum((w * scale_E[e] * x for w, e in zip(ws, es, strict=True)), start=torch.zeros_like(x))
            for x, ws, es in zip(x_ND, weights_NK, experts_NK, strict=True)
        ]
    )
    torch.testing.assert_close(combine(y_SD, weights_NK, order), expected)


@given(shapes)
@settings(max_examples=10, deadline=None)
def test_gradients_of_both_gathers_are_the_numerical_ones(shape: tuple[int, int, int, int]) -> None:
    x_ND, weights_NK, experts_NK, num_experts = draw(shape)
    order = sort_by_expert(experts_NK, num_experts)
    assert gradcheck(lambda x, w: combine(permute(x, order).sin(), w, order), (x_ND, weights_NK))
