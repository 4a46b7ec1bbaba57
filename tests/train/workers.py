"""What the tests run on each rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from headrace.dataeng.loader import Loader
from headrace.train.checkpoint import Checkpoints, training_state
from headrace.train.checkpoint_record import CheckpointRecord
from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.job import prepare
from headrace.train.loop import build_model
from headrace.train.optimizer import build_optimizer
from headrace.train.parallel import joined
from headrace.train.step import Stepper


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """State: every tensor of model and optimizer by name, whole. The rest: one entry a step."""

    state: dict[str, Tensor]
    losses: list[float]
    grad_norms: list[float]
    digests: list[int]
    counts: list[list[list[float]]]
    loaded: CheckpointRecord | None


def whole(state: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
    """A nested state as flat names and unsharded copies."""
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            found |= whole(value, f"{prefix}{name}/")
        else:
            found[prefix + name] = (
                (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()
            )
    return found


def take_steps(
    place: Place,
    config: RunConfig,
    steps: int,
    *,
    load: Path | None = None,
    save: Path | None = None,
) -> Outcome:
    """Loads a checkpoint if told so, takes `steps` steps, saves if told so."""
    job = prepare(config, place)
    with joined(place, timeout_seconds=30) as world:
        model = build_model(config, world)
        optimizer = build_optimizer(model, config.optimizer)
        state = training_state(model, optimizer)
        record = None
        if load is not None:
            record = Checkpoints(load, world, keep=9).load(state, lambda _: None)
            assert record is not None
        first, cursor = (record.step, record.cursor) if record else (0, job.plan.cursor())
        stepper = Stepper(model, optimizer, config, world)
        results = []
        with Loader(
            job.plan,
            global_batch_size=config.train.global_batch_size,
            rank=world.rank,
            world_size=world.size,
            cursor=cursor,
            num_steps=steps,
        ) as loader:
            for step, batch in enumerate(loader, start=first):
                results.append(stepper.step(step, batch, stop=False))
                cursor = batch.cursor
        if save is not None:
            Checkpoints(save, world, keep=9).save(
                first + steps,
                state,
                lambda files: CheckpointRecord(
                    step=first + steps,
                    cursor=cursor,
                    attempt=1,
                    world_size=world.size,
                    global_batch_size=config.train.global_batch_size,
                    config_hash=config.hash,
                    model=config.model.model_dump(mode="json"),
                    files=files,
                ),
            )
        return Outcome(
            state=whole(state),
            losses=[result.loss for result in results],
            grad_norms=[result.grad_norm for result in results],
            digests=[result.digest for result in results],
            counts=[result.counts_LE.tolist() for result in results],
            loaded=record,
        )


def assert_same_training(found: Outcome, expected: Outcome, *, tolerance: float) -> None:
    """Same samples, same routing, and numbers that differ by rounding only (by nothing if `tolerance` is 0)."""
    assert found.digests == expected.digests
    assert found.counts == expected.counts
    for ours, theirs in ((found.losses, expected.losses), (found.grad_norms, expected.grad_norms)):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=tolerance, atol=tolerance)
    assert found.state.keys() == expected.state.keys()
    for name, tensor in expected.state.items():
        torch.testing.assert_close(found.state[name], tensor, rtol=tolerance, atol=tolerance, msg=name)
