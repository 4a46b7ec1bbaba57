"""First weights, a function of the seed and each parameter's name: no rank, layout or device changes them."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from headrace.train.model.transformer import Transformer

# Projections that write to the residual path; their scale keeps its variance from growing with depth (GPT-2).
RESIDUAL = ("attention.output.weight", "experts.down_EFD", "shared.down.weight")


@torch.no_grad()
def initialise(model: Transformer, seed: int) -> None:
    """Fills every parameter and buffer of a model already on its device, sharded or not.

    Each rank draws a whole parameter on the CPU and keeps its shard: no communication, and one parameter's memory.
    """
    for name, parameter in model.named_parameters():
        full = _draw(model, name, parameter.shape, seed).to(parameter.device)
        if isinstance(parameter, DTensor):
            full = distribute_tensor(full, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.copy_(full)
    for buffer in model.buffers():
        buffer.zero_()


def _draw(model: nn.Module, name: str, shape: torch.Size, seed: int) -> Tensor:
    if name.endswith("norm.weight_D"):
        return torch.ones(shape)
    assert isinstance(model, Transformer)
    std = model.config.init_std
    if name.endswith(RESIDUAL):
        std /= (2 * model.config.num_layers) ** 0.5
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little"))
    return torch.empty(shape).normal_(std=std, generator=generator)
