"""The processes of a job, and how a model is spread over them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard

from headrace.train.environment import Place
from headrace.train.model.transformer import Block, Transformer


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A process among the others, once they have met."""

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh

    def sum(self, values: Tensor) -> Tensor:
        """The sum over ranks of a tensor on `device`, in place, the same bits on every rank."""
        distributed.all_reduce(values)
        return values

    def gather(self, value: object) -> list[object]:
        """Every rank's value, in rank order, on every rank. Also a barrier."""
        values: list[object] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values


@contextmanager
def joined(place: Place, *, timeout_seconds: int) -> Iterator[World]:
    """Meets the other ranks; a world of one goes the same way.

    No collective waits longer than `timeout_seconds`: a rank whose peer has died or hangs raises, and its exit makes
    torchrun end the others.
    """
    on_cuda = torch.cuda.is_available()
    device = torch.device("cuda", place.local_rank) if on_cuda else torch.device("cpu")
    if on_cuda:
        torch.cuda.set_device(device)
    if place.launched and os.environ.get("MASTER_ADDR") in ("localhost", "127.0.0.1", "::1"):
        # Without it gloo binds to what the host name resolves to; restarts on one machine then fail to connect.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if Path("/sys/class/net/lo").exists() else "lo0")
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if on_cuda else "gloo",
        rank=place.rank,
        world_size=place.size,
        store=None if place.launched else HashStore(),
        timeout=timedelta(seconds=timeout_seconds),
        device_id=device if on_cuda else None,
    )
    try:
        mesh = init_device_mesh(device.type, (place.size,), mesh_dim_names=("data",))
        yield World(rank=place.rank, size=place.size, device=device, mesh=mesh)
    except BaseException:
        # NCCL's farewell may wait for peers that sit in a collective; a rank that failed must simply go, so that
        # torchrun sees it and ends the others.
        if not on_cuda or place.size == 1:
            distributed.destroy_process_group()
        raise
    else:
        distributed.destroy_process_group()


def is_half(precision: str, device: torch.device) -> bool:
    """Whether a run with this `train.precision` computes in bf16 on `device`."""
    return precision == "bf16" or (precision == "auto" and device.type == "cuda")


def shard(model: Transformer, mesh: DeviceMesh, *, half: bool) -> None:
    """Spreads parameters, gradients and optimizer state over `mesh`, block by block (ZeRO-3).

    Parameters stay fp32; with `half`, blocks compute in bf16 and gradients are reduced in fp32. Routers then form
    groups of their own, kept in fp32: a token's experts must not depend on a rounded gate. What enters a module is
    never cast: activations are bf16 from the embedding on, and the fp32 rotations that enter beside them stay so
    (a cast reaches into dataclasses too).
    """
    dtype = torch.bfloat16 if half else torch.float32
    policy = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=False)
    exact = MixedPrecisionPolicy(torch.float32, torch.float32, cast_forward_inputs=False)

    def place(parameter: nn.Parameter) -> Shard:
        return Shard(cut_axis(parameter.shape, mesh.size()))

    for block in model.blocks:
        assert isinstance(block, Block)
        if half:
            fully_shard(block.moe.router, mesh=mesh, mp_policy=exact, shard_placement_fn=place)
        fully_shard(block, mesh=mesh, mp_policy=policy, shard_placement_fn=place)
    fully_shard(model, mesh=mesh, mp_policy=policy, shard_placement_fn=place)


def cut_axis(shape: Sequence[int], ranks: int) -> int:
    """The axis along which ranks share a parameter: the first, unless its uneven parts would waste more than 1/16.

    Parts are padded to the largest. Of 64 experts on 512 ranks, 448 ranks would hold nothing and each would gather
    eight times the matrix; cut along a later axis, which must split evenly, all hold the same.
    """
    length = shape[0]
    padding = -length % ranks
    if padding * 16 <= length:
        return 0
    return next((axis for axis in range(1, len(shape)) if shape[axis] % ranks == 0), 0)
