"""The loss of a micro-batch, scaled so that neither ranks nor micro-batches show in the gradients."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from headrace.train.model.config import MoEConfig
from headrace.train.model.router import RouterStats


class Loss(NamedTuple):
    """objective: what `backward` is called on. cross_entropy: unscaled sum over valid labels, no gradient."""

    objective: Tensor
    cross_entropy: Tensor


def micro_batch_loss(
    cross_entropy: Tensor,
    stats: RouterStats,
    moe: MoEConfig,
    *,
    valid_labels: Tensor,
    global_batch_size: int,
    world_size: int,
) -> Loss:
    """This micro-batch's part of the step's loss. cross_entropy: the sum over its valid labels.

    A step's loss is the mean of the cross-entropy over the valid labels of the *global* batch, plus the router losses,
    means over its rows. `valid_labels` is that global count, so parts add up to the whole; the factor `world_size`
    undoes the mean over ranks that `fully_shard` takes of gradients.
    """
    routers = moe.balance_loss * stats.balance.sum() + moe.z_loss * stats.z.sum()
    objective = cross_entropy / valid_labels.clamp(min=1) + routers / global_batch_size
    return Loss(objective * world_size, cross_entropy.detach())
