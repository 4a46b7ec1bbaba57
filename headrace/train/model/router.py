"""Which experts a token goes to, with what weight, and how evenly that turned out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headrace.train.model.config import MoEConfig


class RouterStats(NamedTuple):
    """What one layer's routing of one micro-batch says. Sums over rows, so that they add up over micro-batches and
    ranks; each row's share is a mean over its tokens, so that no sum depends on how rows were laid out.

    counts_E: int64, slots each expert received.
    balance, z: the two auxiliary losses, unweighted, with gradient.
    entropy: of the router's distribution over experts, in nats.
    """

    counts_E: Tensor
    balance: Tensor
    z: Tensor
    entropy: Tensor


class Routing(NamedTuple):
    """weights_NK fp32, summing to 1 for each token; experts_NK int64."""

    weights_NK: Tensor
    experts_NK: Tensor
    stats: RouterStats


class Router(nn.Module):
    """Top-k routing in fp32. `bias_E` takes part in the choice of experts only, never in their weights; the
    optimizer does not know it, `update_bias` moves it once a step.
    """

    bias_E: Tensor

    def __init__(self, width: int, config: MoEConfig) -> None:
        super().__init__()
        self.config = config
        self.gate_ED = nn.Parameter(torch.empty(config.num_experts, width))
        self.register_buffer("bias_E", torch.zeros(config.num_experts))

    def forward(self, x_BTD: Tensor) -> Routing:
        logits_BTE = F.linear(x_BTD.float(), self.gate_ED.float())
        if self.config.scores == "softmax":
            scores_BTE = shares_BTE = logits_BTE.softmax(dim=-1)
        else:
            scores_BTE = logits_BTE.sigmoid()
            shares_BTE = scores_BTE / scores_BTE.sum(dim=-1, keepdim=True)
        experts_BTK = (scores_BTE.detach() + self.bias_E).topk(self.config.experts_per_token, dim=-1).indices
        weights_BTK = scores_BTE.gather(-1, experts_BTK)
        weights_BTK = weights_BTK / weights_BTK.sum(dim=-1, keepdim=True)
        return Routing(
            weights_BTK.flatten(0, 1),
            experts_BTK.flatten(0, 1),
            _stats(logits_BTE, shares_BTE, experts_BTK),
        )

    @torch.no_grad()
    def update_bias(self, counts_E: Tensor) -> None:
        """Raises the bias of experts that got less than the mean of `counts_E`, lowers that of the others.

        counts_E: slots of one whole optimizer step, over all micro-batches and ranks.
        """
        counts_E = counts_E.to(self.bias_E.device, torch.float64)
        self.bias_E += self.config.bias_rate * torch.sign(counts_E.mean() - counts_E).float()


def _stats(logits_BTE: Tensor, shares_BTE: Tensor, experts_BTK: Tensor) -> RouterStats:
    E, (T, K) = logits_BTE.shape[-1], experts_BTK.shape[1:]
    # Counted by comparing, one choice at a time: no atomics, and no more memory than one layer of scores.
    experts_E = torch.arange(E, device=experts_BTK.device)
    counts_BE = sum(
        ((chosen_BT[..., None] == experts_E).sum(dim=1) for chosen_BT in experts_BTK.unbind(-1)),
        start=torch.zeros_like(experts_E),
    )
    balance = (counts_BE * (E / (T * K)) * shares_BTE.mean(dim=1)).sum()
    z = logits_BTE.logsumexp(dim=-1).square().mean(dim=1).sum()
    with torch.no_grad():
        entropy = torch.special.entr(shares_BTE).sum(dim=-1).mean(dim=1).sum()
    return RouterStats(counts_BE.sum(dim=0), balance, z, entropy)
