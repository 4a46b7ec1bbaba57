"""The decoder: embedding, blocks of attention and experts, and the projection back to the vocabulary."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headrace.kernels.loss.op import linear_cross_entropy
from headrace.train.model.attention import Attention, Context
from headrace.train.model.config import ModelConfig
from headrace.train.model.documents import Documents
from headrace.train.model.moe import MoE
from headrace.train.model.norm import RMSNorm
from headrace.train.model.rope import rotation
from headrace.train.model.router import Router, RouterStats

IGNORED: Final = -100  # the label of what is not to be predicted
_LOGIT_BYTES: Final = 640 << 20  # at a time; twice as much is 2 % faster on an H200, half as much 9 % slower


class Block(nn.Module):
    """Attention and experts, each behind a norm and beside a residual path."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.width, config.norm_epsilon)
        self.attention = Attention(config)
        self.moe_norm = RMSNorm(config.width, config.norm_epsilon)
        self.moe = MoE(config.width, config.moe)

    def forward(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, RouterStats]:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD), context)
        out_BTD, stats = self.moe(self.moe_norm(x_BTD))
        return x_BTD + out_BTD, stats


class Transformer(nn.Module):
    """inputs_BT int64 -> the sum of the cross-entropy over labels_BT that are not IGNORED, without ever holding all logits;
    or without labels logits_BTV. Beside it each layer's router statistics, stacked to a leading L.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.width, config.norm_epsilon)
        self.head = None if config.tie_embeddings else nn.Linear(config.width, config.vocab_size, bias=False)

    def forward(
        self, inputs_BT: Tensor, documents: Documents, labels_BT: Tensor | None = None
    ) -> tuple[Tensor, RouterStats]:
        x_BTD = self.embedding(inputs_BT)
        by = rotation(documents.positions_BT, self.config.channels, self.config.rope_base)
        context = Context.of(documents, by, x_BTD.dtype)
        stats: list[RouterStats] = []
        for block in self.blocks:
            x_BTD, layer = block(x_BTD, context)
            stats.append(layer)
        x_BTD = self.norm(x_BTD)
        weight_VD = self.embedding.weight if self.head is None else self.head.weight
        if labels_BT is None:
            out = F.linear(x_BTD, weight_VD)
        else:
            out = linear_cross_entropy(
                x_BTD.flatten(0, 1), weight_VD, labels_BT.flatten(), ignored=IGNORED, chunk_bytes=_LOGIT_BYTES
            )
        return out, RouterStats(*(torch.stack(field) for field in zip(*stats, strict=True)))

    def routers(self) -> list[Router]:
        """The router of each layer, in order."""
        return [module for module in self.modules() if isinstance(module, Router)]


def count_parameters(config: ModelConfig) -> tuple[int, int]:
    """All parameters, and those that one token's forward pass uses. Allocates nothing."""
    with torch.device("meta"):
        model = Transformer(config)
    total = sum(parameter.numel() for parameter in model.parameters())
    experts = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
    return total, total - experts + experts * config.moe.experts_per_token // config.moe.num_experts
