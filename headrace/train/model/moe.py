"""A dropless mixture of experts: every token reaches all of its experts, whatever the load."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headrace.kernels.moe.glu import split
from headrace.kernels.moe.order import sort_by_expert
from headrace.train.model.config import MoEConfig
from headrace.train.model.dispatch import combine, permute
from headrace.train.model.grouped import grouped_matmul
from headrace.train.model.mlp import MLP
from headrace.train.model.router import Router, RouterStats


class Experts(nn.Module):
    """E SwiGLU networks of one shape, their matrices stacked; `headrace.kernels.moe.glu` says how gate and up lie."""

    def __init__(self, width: int, config: MoEConfig) -> None:
        super().__init__()
        E, hidden = config.num_experts, config.expert_width
        self.gate_up_EDF = nn.Parameter(torch.empty(E, width, 2 * hidden))
        self.down_EFD = nn.Parameter(torch.empty(E, hidden, width))

    def forward(self, x_ND: Tensor, weights_NK: Tensor, experts_NK: Tensor) -> Tensor:
        """[N, D]: for each token the sum of its experts' outputs times their weights."""
        if x_ND.is_cuda:  # where torch brings Triton
            from headrace.kernels.moe.op import moe_mlp, supports

            if supports(x_ND, self.gate_up_EDF, self.down_EFD):
                return moe_mlp(x_ND, self.gate_up_EDF, self.down_EFD, weights_NK, experts_NK)
        order = sort_by_expert(experts_NK, self.gate_up_EDF.shape[0])
        gate_SF, up_SF = split(grouped_matmul(permute(x_ND, order), self.gate_up_EDF, order.ends_E))
        hidden_SF = F.silu(gate_SF) * up_SF
        return combine(grouped_matmul(hidden_SF, self.down_EFD, order.ends_E), weights_NK, order)


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
        out_ND = self.experts(x_ND, routing.weights_NK, routing.experts_NK)
        if self.shared is not None:
            out_ND = out_ND + self.shared(x_ND)
        return out_ND.view_as(x_BTD), routing.stats
