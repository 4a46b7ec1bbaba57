"""What a model is: everything here decides its parameters or its arithmetic. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from headrace.train.section import Section

# Grouped GEMMs need rows that start on 16-byte borders; 8 elements are 16 bytes in bfloat16.
ALIGNMENT = 8
# `headrace.kernels.moe.glu.INTERLEAVE`: gate and up of an expert lie in turns of so many columns.
EXPERT_ALIGNMENT = 16
# The limit of flash attention, which attends inside ragged documents on CUDA; it needs ALIGNMENT as well.
WIDEST_HEAD = 256


class MoEConfig(Section):
    """A mixture of experts: `num_experts` SwiGLU networks of hidden width `expert_width`, of which a token uses
    `experts_per_token`, and one of width `shared_width` that every token uses (0: none).

    scores: how router logits become scores, `softmax` over experts or an independent `sigmoid` each.
    balance_loss: weight of the sequence-wise balance loss (DeepSeek-V3, arXiv:2412.19437, eq. 17-20).
    z_loss: weight of the mean squared log-sum-exp of router logits (ST-MoE, arXiv:2202.08906, eq. 5).
    bias_rate: what an optimizer step adds to, or takes from, the selection bias of an under- or overloaded
        expert (auxiliary-loss-free balancing, arXiv:2408.15664); 0 turns it off.
    """

    num_experts: PositiveInt = 8
    experts_per_token: PositiveInt = 2
    expert_width: PositiveInt = 256
    shared_width: int = Field(default=256, ge=0)
    scores: Literal["softmax", "sigmoid"] = "sigmoid"
    balance_loss: float = Field(default=1e-4, ge=0)
    z_loss: float = Field(default=1e-3, ge=0)
    bias_rate: float = Field(default=1e-3, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> MoEConfig:
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"experts_per_token is {self.experts_per_token}, but there are only {self.num_experts} experts"
            )
        if self.shared_width % ALIGNMENT:
            raise ValueError(f"shared_width is {self.shared_width}; expected a multiple of {ALIGNMENT}")
        if self.expert_width % EXPERT_ALIGNMENT:
            raise ValueError(
                f"expert_width is {self.expert_width}; expected a multiple of {EXPERT_ALIGNMENT}"
            )
        return self


class ModelConfig(Section):
    """A decoder with grouped-query attention, rotary positions, RMSNorm before each part, and MoE blocks.

    head_width: channels of one attention head; left out, `width / num_heads`.
    tie_embeddings: the output projection is the embedding matrix.
    """

    vocab_size: PositiveInt
    width: PositiveInt = 192
    num_layers: PositiveInt = 4
    num_heads: PositiveInt = 6
    num_kv_heads: PositiveInt = 2
    head_width: PositiveInt | None = None
    rope_base: PositiveFloat = 10_000.0
    norm_epsilon: PositiveFloat = 1e-5
    init_std: PositiveFloat = 0.02
    tie_embeddings: bool = True
    moe: MoEConfig = MoEConfig()

    @property
    def channels(self) -> int:
        """Channels of one attention head."""
        return self.head_width or self.width // self.num_heads

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        if self.width % ALIGNMENT:
            raise ValueError(f"width is {self.width}; expected a multiple of {ALIGNMENT}")
        if self.head_width is None and self.width % self.num_heads:
            raise ValueError(
                f"width {self.width} is not a multiple of num_heads {self.num_heads}; change one, or give head_width"
            )
        if self.channels % ALIGNMENT or self.channels > WIDEST_HEAD:
            raise ValueError(
                f"a head has {self.channels} channels; expected a multiple of {ALIGNMENT}, at most {WIDEST_HEAD}"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}"
            )
        return self
