"""A dropless mixture of experts: every token reaches all of its experts, whatever the load."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headrace.train.model.config import MoEConfig
from headrace.train.model.dispatch import combine, permute, sort_by_expert
from headrace.train.model.grouped import grouped_matmul
from headrace.train.model.mlp import MLP, swiglu
from headrace.train.model.router import Router, RouterStats


class Experts(nn.Module):
    """E SwiGLU networks of one shape, their matrices stacked."""

    def __init__(self, width: int, config: MoEConfig) -> None:
        super().__init__()
        E, F = config.num_experts, config.expert_width
        self.gate_up_EDF = nn.Parameter(torch.empty(E, width, 2 * F))
        self.down_EFD = nn.Parameter(torch.empty(E, F, width))

    def forward(self, x_SD: Tensor, ends_E: Tensor) -> Tensor:
        hidden_SF = swiglu(grouped_matmul(x_SD, self.gate_up_EDF, ends_E))
        return grouped_matmul(hidden_SF, self.down_EFD, ends_E)


class MoE(nn.Module):
    """x_BTD -> [B, T, D] and what the router did. Its definition, token by token, is in `reference.py`."""

    def __init__(self, width: int, config: MoEConfig) -> None:
        super().__init__()
        self.router = Router(width, config)
        self.experts = Experts(width, config)
        self.shared = MLP(width, config.shared_width) if config.shared_width else None

    def forward(self, x_BTD: Tensor) -> tuple[Tensor, RouterStats]:
        routing = self.router(x_BTD)
        x_ND = x_BTD.flatten(0, 1)
        order = sort_by_expert(routing.experts_NK, self.experts.gate_up_EDF.shape[0])
        out_ND = combine(self.experts(permute(x_ND, order), order.ends_E), routing.weights_NK, order)
        if self.shared is not None:
            out_ND = out_ND + self.shared(x_ND)
        return out_ND.view_as(x_BTD), routing.stats
