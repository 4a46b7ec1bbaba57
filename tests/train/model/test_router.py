from __future__ import annotations

from typing import Literal

import pytest
import torch

from headrace.train.model.config import MoEConfig
from headrace.train.model.router import Router, Routing


def build(scores: Literal["softmax", "sigmoid"] = "sigmoid", k: int = 2) -> Router:
    torch.manual_seed(1)
    router = Router(16, MoEConfig(num_experts=8, experts_per_token=k, scores=scores, bias_rate=0.01))
    torch.nn.init.normal_(router.gate_ED)
    return router


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_bias_changes_the_choice_but_not_the_weight_of_an_expert(
    scores: Literal["softmax", "sigmoid"],
) -> None:
    router, x_BTD = build(scores, k=8), torch.randn(2, 9, 16)
    before = router(x_BTD)
    router.bias_E.copy_(torch.linspace(-1, 1, 8))
    after = router(x_BTD)

    def by_expert(routing: Routing) -> torch.Tensor:
        return torch.zeros(18, 8).scatter(1, routing.experts_NK, routing.weights_NK)

    torch.testing.assert_close(by_expert(before), by_expert(after))  # with k = E, all are chosen
    router = build(scores, k=1)
    router.bias_E[5] = 10.0
    assert set(router(x_BTD).experts_NK.flatten().tolist()) == {5}


def test_weights_of_a_token_sum_to_one() -> None:
    routing = build()(torch.randn(3, 5, 16))
    torch.testing.assert_close(routing.weights_NK.sum(dim=1), torch.ones(15))


def test_router_computes_in_fp32_whatever_it_is_given() -> None:
    routing = build()(torch.randn(1, 4, 16, dtype=torch.bfloat16))
    assert routing.weights_NK.dtype == routing.stats.balance.dtype == torch.float32


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
def test_statistics_of_rows_add_up_to_those_of_the_batch(scores: Literal["softmax", "sigmoid"]) -> None:
    router, x_BTD = build(scores), torch.randn(4, 6, 16)
    whole = router(x_BTD).stats
    parts = [router(x_BTD[i : i + 1]).stats for i in range(4)]
    for name in whole._fields:
        torch.testing.assert_close(getattr(whole, name), sum(getattr(p, name) for p in parts))


def test_balance_loss_is_one_a_row_when_even_and_grows_with_concentration() -> None:
    router = build()
    router.gate_ED.data.zero_()
    even = router(torch.randn(3, 8, 16)).stats
    torch.testing.assert_close(even.balance, torch.tensor(3.0))
    torch.testing.assert_close(even.entropy, 3 * torch.log(torch.tensor(8.0)))
    router.gate_ED.data[0] = 5.0
    assert router(torch.ones(3, 8, 16)).stats.balance > 3.3


def test_bias_rises_for_the_starved_and_falls_for_the_flooded_by_one_rate() -> None:
    router = build()
    router.update_bias(torch.tensor([0, 4, 8, 4, 4, 4, 4, 4]))
    torch.testing.assert_close(router.bias_E, torch.tensor([0.01, 0, -0.01, 0, 0, 0, 0, 0]))


def test_bias_balances_a_router_that_prefers_one_expert() -> None:
    router = build(k=1)
    x_BTD = torch.randn(8, 32, 16) + 1
    router.gate_ED.data[0] += 0.3
    start = router(x_BTD).stats.counts_E.max()
    for _ in range(300):
        router.update_bias(router(x_BTD).stats.counts_E)
    assert router(x_BTD).stats.counts_E.max() < start / 2
