"""AdamW, its schedule, and the check that stands before every update."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import AdamW

from headrace.train.config import OptimizerConfig, ScheduleConfig


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> AdamW:
    """AdamW over fp32 parameters, decay on matrices only (norms have one axis), its state already in place.

    State made now rather than at the first step is state that a checkpoint can be loaded into.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = AdamW(groups, lr=config.lr, betas=config.betas, eps=config.epsilon, fused=True)
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }
    return optimizer


def optimizer_state(model: nn.Module, optimizer: AdamW) -> dict[str, dict[str, Any]]:
    """The optimizer's tensors by parameter name, sharing memory; its settings are the configuration's to decide."""
    return {name: optimizer.state[parameter] for name, parameter in model.named_parameters()}


def learning_rate(step: int, *, peak: float, steps: int, schedule: ScheduleConfig) -> float:
    """The rate of step `step`, counted from 0; the first warm-up step is not zero, the last step ends the cosine."""
    if step < schedule.warmup_steps:
        return peak * (step + 1) / schedule.warmup_steps
    progress = (step + 1 - schedule.warmup_steps) / max(steps - schedule.warmup_steps, 1)
    cosine = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    return peak * (schedule.final_fraction + (1 - schedule.final_fraction) * cosine)


def gradient_norm(parameters: Iterable[nn.Parameter]) -> Tensor:
    """The 2-norm of all gradients as one vector, over all ranks."""
    norm = get_total_norm([p.grad for p in parameters if p.grad is not None])
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def apply_gradients(optimizer: AdamW, norm: Tensor, *, lr: float, clip_norm: float) -> None:
    """Clips by a norm that is known to be finite, takes one step, and drops the gradients."""
    for group in optimizer.param_groups:
        group["lr"] = lr
        clip_grads_with_norm_(group["params"], clip_norm, norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
