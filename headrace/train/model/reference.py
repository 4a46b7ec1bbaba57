"""What a mixture-of-experts layer computes, token by token. Slow on purpose: this is the definition."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from headrace.kernels.moe.glu import split
from headrace.train.model.moe import MoE


def moe_reference(moe: MoE, x_BTD: Tensor) -> Tensor:
    """The output of `moe` for `x_BTD`, in the dtype of its parameters; differentiable."""
    config, router = moe.router.config, moe.router
    out = []
    for x_D in x_BTD.flatten(0, 1):
        logits_E = router.gate_ED @ x_D
        scores_E = logits_E.softmax(0) if config.scores == "softmax" else logits_E.sigmoid()
        ranked = (scores_E.detach() + router.bias_E).tolist()
        chosen = sorted(range(config.num_experts), key=lambda e: -ranked[e])[: config.experts_per_token]
        total = sum((scores_E[e] for e in chosen), start=torch.zeros_like(scores_E[0]))
        y_D = torch.zeros_like(x_D)
        for e in chosen:
            gate_F, up_F = split(x_D @ moe.experts.gate_up_EDF[e])
            hidden_F = F.silu(gate_F) * up_F
            y_D = y_D + scores_E[e] / total * (hidden_F @ moe.experts.down_EFD[e])
        if moe.shared is not None:
            y_D = y_D + moe.shared(x_D)
        out.append(y_D)
    return torch.stack(out).view_as(x_BTD)
