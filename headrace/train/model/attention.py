"""Grouped-query attention that never looks across a document border."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headrace.train.model.config import ModelConfig
from headrace.train.model.documents import Documents
from headrace.train.model.rope import Rotation, rotate


@dataclass(frozen=True, slots=True)
class Context:
    """What all attention layers of a micro-batch share. `mask_BTT` is absent where boundaries alone suffice."""

    documents: Documents
    rotation: Rotation
    mask_BTT: Tensor | None

    @classmethod
    def of(cls, documents: Documents, by: Rotation, dtype: torch.dtype) -> Context:
        needs_mask = not has_varlen(documents.boundaries.device, dtype)
        return cls(documents, by, documents.mask() if needs_mask else None)


def has_varlen(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether attention over ragged documents exists here: flash kernels, so half precision on CUDA."""
    return device.type == "cuda" and dtype in (torch.bfloat16, torch.float16)


def attend(q_BTHC: Tensor, k_BTGC: Tensor, v_BTGC: Tensor, context: Context) -> Tensor:
    """Causal attention inside each document; returns [B, T, H, C]. The seam where other kernels will come."""
    B, T, H, C = q_BTHC.shape
    if context.mask_BTT is not None:
        out_BHTC = F.scaled_dot_product_attention(
            q_BTHC.transpose(1, 2),
            k_BTGC.transpose(1, 2),
            v_BTGC.transpose(1, 2),
            attn_mask=context.mask_BTT[:, None],
            enable_gqa=k_BTGC.shape[2] != H,
        )
        return out_BHTC.transpose(1, 2)
    from torch.nn.attention.varlen import varlen_attn

    documents, repeats = context.documents, H // k_BTGC.shape[2]
    k_BTHC, v_BTHC = (
        x.repeat_interleave(repeats, dim=2) for x in (k_BTGC, v_BTGC)
    )  # no GQA there in torch 2.11
    out_NHC = varlen_attn(
        q_BTHC.reshape(B * T, H, C),
        k_BTHC.reshape(B * T, H, C),
        v_BTHC.reshape(B * T, H, C),
        documents.boundaries,
        documents.boundaries,
        documents.longest,
        documents.longest,
        window_size=(-1, 0),
    )
    assert isinstance(out_NHC, Tensor)  # a tuple only where auxiliary outputs are asked for
    return out_NHC.view(B, T, H, C)


class Attention(nn.Module):
    """x_BTD -> [B, T, D]."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D, H, G, C = config.width, config.num_heads, config.num_kv_heads, config.channels
        self.channels = C
        self.query = nn.Linear(D, H * C, bias=False)
        self.key = nn.Linear(D, G * C, bias=False)
        self.value = nn.Linear(D, G * C, bias=False)
        self.output = nn.Linear(H * C, D, bias=False)

    def forward(self, x_BTD: Tensor, context: Context) -> Tensor:
        q_BTHC, k_BTGC, v_BTGC = (
            projection(x_BTD).unflatten(-1, (-1, self.channels))
            for projection in (self.query, self.key, self.value)
        )
        out_BTHC = attend(rotate(q_BTHC, context.rotation), rotate(k_BTGC, context.rotation), v_BTGC, context)
        return self.output(out_BTHC.flatten(-2))  # type: ignore[no-any-return]
