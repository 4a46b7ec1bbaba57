"""One optimizer step, from a batch to what is known about it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.optim import AdamW

from headrace.errors import HeadraceError
from headrace.train.config import RunConfig
from headrace.train.loss import micro_batch_loss
from headrace.train.model.documents import Documents, rows
from headrace.train.model.router import RouterStats
from headrace.train.model.transformer import IGNORED, Transformer
from headrace.train.optimizer import apply_gradients, gradient_norm, learning_rate
from headrace.train.parallel import World

if TYPE_CHECKING:
    from headrace.dataeng.batch import Batch

_LOW = (1 << 32) - 1


class NonFiniteError(HeadraceError):
    """Gradients are not finite; the step was not taken."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """A step of the global batch; the same on every rank.

    counts_LE, and the router's means over rows: CPU float64, one row a layer.
    stop: whether any rank was asked to end.
    """

    loss: float
    grad_norm: float
    lr: float
    digest: int
    counts_LE: Tensor
    balance_L: Tensor
    z_L: Tensor
    entropy_L: Tensor
    wait_seconds: float
    stop: bool


class Stepper:
    """Takes steps. Two collectives of its own each: one before the first micro-batch, one after the update."""

    def __init__(self, model: Transformer, optimizer: AdamW, config: RunConfig, world: World) -> None:
        self._model = model
        self._optimizer = optimizer
        self._config = config
        self._world = world
        self._routers = model.routers()

    def step(self, step: int, batch: Batch, *, stop: bool) -> StepResult:
        """Step number `step`, counted from 0, on this rank's part of the global batch.

        Raises:
            NonFiniteError: on every rank alike; neither parameters nor optimizer state have changed.
        """
        opening = self._world.sum(self._opening(batch))
        loss, stats = self._accumulate(batch, valid_labels=opening[0])
        norm = gradient_norm(self._model.parameters())
        if not torch.isfinite(norm):
            raise NonFiniteError(
                f"step {step:,}: the gradient norm is {norm.item()}; its batch is samples {batch.first_sample:,} to "
                f"{batch.end_sample - 1:,} (`headrace trace` names their documents). The step was not taken; the last "
                "checkpoint is from before it"
            )
        train = self._config.train
        lr = learning_rate(
            step, peak=self._config.optimizer.lr, steps=train.steps, schedule=self._config.schedule
        )
        apply_gradients(self._optimizer, norm, lr=lr, clip_norm=self._config.optimizer.clip_norm)
        return self._close(batch, opening, loss, stats, norm=norm, lr=lr, stop=stop)

    def _opening(self, batch: Batch) -> Tensor:
        """Valid labels and the digest; in halves, so that no sum over ranks passes 63 bits."""
        valid = int((batch.labels != IGNORED).sum())
        return torch.tensor(
            [valid, batch.digest & _LOW, batch.digest >> 32], dtype=torch.int64, device=self._world.device
        )

    def _accumulate(self, batch: Batch, *, valid_labels: Tensor) -> tuple[Tensor, RouterStats]:
        """Adds up gradients, and in float64 the loss and the statistics, over the micro-batches of this rank."""
        train, device = self._config.train, self._world.device
        length = batch.inputs.shape[1]
        loss = torch.zeros((), dtype=torch.float64, device=device)
        total: RouterStats | None = None
        for first in range(0, len(batch.inputs), train.micro_batch_size):
            part = slice(first, first + train.micro_batch_size)
            inputs_BT, labels_BT = (
                torch.from_numpy(x[part]).to(device, non_blocking=True) for x in (batch.inputs, batch.labels)
            )
            boundaries = rows(batch.cu_seqlens, part.start, part.stop, length)
            cross_entropy, stats = self._model(
                inputs_BT, Documents.of(batch.positions[part], boundaries, device), labels_BT
            )
            objective, summed = micro_batch_loss(
                cross_entropy,
                stats,
                self._config.model.moe,
                valid_labels=valid_labels,
                global_batch_size=train.global_batch_size,
                world_size=self._world.size,
            )
            objective.backward()
            loss += summed
            exact = RouterStats(*(field.detach().double() for field in stats))
            total = (
                exact if total is None else RouterStats(*(a + b for a, b in zip(total, exact, strict=True)))
            )
        assert total is not None  # a rank has at least one row
        return loss, total

    def _close(
        self,
        batch: Batch,
        opening: Tensor,
        loss: Tensor,
        stats: RouterStats,
        *,
        norm: Tensor,
        lr: float,
        stop: bool,
    ) -> StepResult:
        """The second collective: everything that is a sum over ranks, and whether one of them wants to end."""
        world, layers = self._world, len(self._routers)
        waits = torch.zeros(world.size, dtype=torch.float64, device=world.device)
        waits[world.rank] = batch.wait_seconds
        asked = torch.tensor([float(stop)], dtype=torch.float64, device=world.device)
        parts = [loss[None], asked, waits, stats.balance, stats.z, stats.entropy, stats.counts_E.flatten()]
        summed = world.sum(torch.cat(parts)).split([part.numel() for part in parts])
        for router, counts_E in zip(self._routers, summed[-1].view(layers, -1), strict=True):
            router.update_bias(counts_E)
        # Read to the host only now, in one go: until here the device was never waited for but for the norm.
        total, asked, waits, balance_L, z_L, entropy_L, counts = (part.cpu() for part in summed)
        valid, low, high = opening.tolist()
        rows_of_step = self._config.train.global_batch_size
        return StepResult(
            loss=total.item() / max(valid, 1),
            grad_norm=norm.item(),
            lr=lr,
            digest=(low + (high << 32)) & ((1 << 64) - 1),
            counts_LE=counts.view(layers, -1),
            balance_L=balance_L / rows_of_step,
            z_L=z_L / rows_of_step,
            entropy_L=entropy_L / rows_of_step,
            wait_seconds=waits.max().item(),
            stop=asked.item() > 0,
        )
