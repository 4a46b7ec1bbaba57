from __future__ import annotations

import pytest
import torch
from torch import nn

from headrace.train.config import OptimizerConfig, ScheduleConfig
from headrace.train.optimizer import apply_gradients, build_optimizer, gradient_norm, learning_rate


def rate(step: int, *, warmup: int = 10, steps: int = 100) -> float:
    schedule = ScheduleConfig(warmup_steps=warmup, final_fraction=0.1)
    return learning_rate(step, peak=2.0, steps=steps, schedule=schedule)


def test_warm_up_is_linear_and_reaches_the_peak() -> None:
    assert [rate(step) for step in (0, 4, 9)] == pytest.approx([0.2, 1.0, 2.0])


def test_cosine_falls_all_the_way_and_ends_at_the_final_fraction() -> None:
    rates = [rate(step) for step in range(9, 100)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.2)
    assert rate(54) == pytest.approx(1.1)  # half way


def test_schedules_of_one_phase_only_have_a_rate_at_every_step() -> None:
    assert rate(9, warmup=10, steps=10) == 2.0
    assert rate(0, warmup=0, steps=1) == pytest.approx(0.2)


def test_decay_touches_matrices_and_leaves_vectors() -> None:
    model = nn.ParameterDict(
        {"matrix": nn.Parameter(torch.ones(2, 2)), "vector": nn.Parameter(torch.ones(2))}
    )
    optimizer = build_optimizer(model, OptimizerConfig(weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    apply_gradients(optimizer, torch.tensor(0.0), lr=0.1, clip_norm=1.0)
    assert model["matrix"].flatten().tolist() == pytest.approx([0.95] * 4)
    assert model["vector"].tolist() == [1.0, 1.0]


def test_state_made_beforehand_changes_no_step() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(4, 3, bias=False), nn.Linear(4, 3, bias=False)
    theirs.load_state_dict(ours.state_dict())
    config = OptimizerConfig(lr=0.1, clip_norm=0.5)
    optimizer = build_optimizer(ours, config)
    reference = torch.optim.AdamW(theirs.parameters(), 0.1, config.betas, config.epsilon, config.weight_decay)
    for _ in range(3):
        x = torch.randn(5, 4)
        for model in (ours, theirs):
            model(x).square().sum().backward()
        apply_gradients(optimizer, gradient_norm(ours.parameters()), lr=0.1, clip_norm=0.5)
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
        reference.zero_grad()
        torch.testing.assert_close(ours.weight, theirs.weight)
