from __future__ import annotations

from typing import Literal

import pytest
import torch

from headrace.train.model.config import MoEConfig
from headrace.train.model.grouped import _grouped_mm, grouped_matmul
from headrace.train.model.moe import MoE
from headrace.train.model.reference import moe_reference

WIDTH = 24


def build(config: MoEConfig, *, seed: int = 0) -> MoE:
    torch.manual_seed(seed)
    moe = MoE(WIDTH, config)
    for parameter in moe.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return moe


@pytest.mark.parametrize("scores", ["softmax", "sigmoid"])
@pytest.mark.parametrize(
    ("experts", "k", "shared", "rows", "length"),
    [(4, 2, 16, 2, 7), (8, 1, 0, 1, 5), (8, 8, 8, 1, 3), (13, 3, 24, 3, 11), (1, 1, 0, 1, 1)],
)
def test_layer_equals_its_reference_forward_and_backward_in_double_precision(
    scores: Literal["softmax", "sigmoid"], experts: int, k: int, shared: int, rows: int, length: int
) -> None:
    config = MoEConfig(
        num_experts=experts, experts_per_token=k, expert_width=16, shared_width=shared, scores=scores
    )
    moe = build(config)
    moe.router.bias_E.copy_(torch.linspace(-0.05, 0.05, experts))
    x_BTD = torch.randn(rows, length, WIDTH, requires_grad=True)
    probe = torch.randn(rows, length, WIDTH)

    # The fp32 layer first, for its choice of experts; then the definition in double precision.
    out, _ = moe(x_BTD)
    (out * probe).sum().backward()
    found = {name: parameter.grad for name, parameter in moe.named_parameters()}
    exact = build(config).double()
    exact.load_state_dict({name: value.double() for name, value in moe.state_dict().items()})
    x_exact = x_BTD.detach().double().requires_grad_()
    expected = moe_reference(exact, x_exact)
    (expected * probe.double()).sum().backward()

    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    assert x_BTD.grad is not None
    assert x_exact.grad is not None
    torch.testing.assert_close(x_BTD.grad.double(), x_exact.grad, rtol=1e-4, atol=1e-5)
    for name, parameter in exact.named_parameters():
        gradient = found[name]
        assert gradient is not None, name
        wanted = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-5, msg=name)


def test_experts_that_no_token_chose_get_a_gradient_of_zero() -> None:
    moe = build(MoEConfig(num_experts=8, experts_per_token=1, expert_width=16, shared_width=0))
    moe.router.bias_E[3] = 100.0  # everything goes to expert 3
    out, stats = moe(torch.randn(2, 5, WIDTH))
    out.sum().backward()
    assert stats.counts_E.tolist() == [0, 0, 0, 10, 0, 0, 0, 0]
    gradient = moe.experts.down_EFD.grad
    assert gradient is not None
    assert gradient[3].abs().sum() > 0
    assert gradient[[0, 1, 2, 4, 5, 6, 7]].abs().sum() == 0


@pytest.mark.parametrize("lengths", [[3, 0, 5, 1], [0, 0, 7], [4], [0, 2, 0]])
def test_loop_over_experts_equals_the_grouped_product(lengths: list[int]) -> None:
    torch.manual_seed(0)
    x_SD = torch.randn(sum(lengths), 16, requires_grad=True)
    weight_EDF = torch.randn(len(lengths), 16, 8, requires_grad=True)
    ends_E = torch.tensor(lengths).cumsum(0).to(torch.int32)
    probe = torch.randn(sum(lengths), 8)
    for function in (grouped_matmul, _grouped_mm):
        out = function(x_SD, weight_EDF, ends_E)
        grads = torch.autograd.grad((out * probe).sum(), (x_SD, weight_EDF))
        pieces = zip(x_SD.split(lengths), weight_EDF, probe.split(lengths), strict=True)
        expected = [(x @ w, p @ w.T, x.T @ p) for x, w, p in pieces]
        torch.testing.assert_close(out, torch.cat([e[0] for e in expected]))
        torch.testing.assert_close(grads[0], torch.cat([e[1] for e in expected]))
        torch.testing.assert_close(grads[1], torch.stack([e[2] for e in expected]))
