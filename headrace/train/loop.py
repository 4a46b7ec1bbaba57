"""A run from start to end: meet, resume, step, save, leave."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Any

import torch

from headrace.errors import MismatchError
from headrace.manifests.cursor import Cursor
from headrace.train.agreement import in_step, require_same_run
from headrace.train.checkpoint import Checkpoints, training_state
from headrace.train.checkpoint_record import CheckpointRecord, StoredFile
from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.job import Job, prepare
from headrace.train.lock import PATIENCE_SECONDS, run_lock
from headrace.train.model.init import initialise
from headrace.train.model.transformer import Transformer
from headrace.train.optimizer import build_optimizer
from headrace.train.parallel import World, is_half, joined, shard
from headrace.train.recorder import Recorder, say
from headrace.train.signals import StopRequest
from headrace.train.step import Stepper


def train(config: RunConfig) -> None:
    """Trains `config` to its last step, from the newest whole checkpoint of its run directory if there is one.

    Returns after the last step, and also after SIGTERM or SIGINT once a checkpoint of where it stood is durable.

    Raises:
        HeadraceError: with the reason, on the rank that found it; the others end too, within the collective timeout.
    """
    place = Place.from_environment()
    job = prepare(config, place)
    stop = StopRequest(launched=place.launched)
    if config.train.deterministic:
        _make_deterministic()
    with ExitStack() as stack:
        stack.enter_context(stop.listening())
        world = stack.enter_context(joined(place, timeout_seconds=config.train.collective_timeout))
        if world.rank == 0:
            # The other ranks wait for this one, and not for ever.
            patience = min(PATIENCE_SECONDS, config.train.collective_timeout / 2)
            stack.enter_context(run_lock(job.directory, patience=patience))
        require_same_run(job, world)  # and nobody reads the run directory before it is ours
        _run(job, world, stop)


def _run(job: Job, world: World, stop: StopRequest) -> None:
    from headrace.dataeng.loader import Loader

    config = job.config
    model = build_model(config, world)
    optimizer = build_optimizer(model, config.optimizer)
    state = training_state(model, optimizer)
    checkpoints = Checkpoints(job.directory / "checkpoints", world, keep=config.train.keep_checkpoints)
    checkpoints.clean()
    found = checkpoints.load(state, lambda record: _check(record, job))
    first_step, cursor = (found.step, found.cursor) if found else (0, job.plan.cursor())
    if first_step >= config.train.steps:
        if world.rank == 0:
            say(
                f"{job.directory}: all {config.train.steps:,} steps are done, the last checkpoint is of step "
                f"{first_step:,}; for more, raise train.steps, or name another run.dir"
            )
        return
    recorder = (
        Recorder(job, first_step=first_step, next_sample=cursor.next_sample) if world.rank == 0 else None
    )
    try:
        if recorder is not None:
            source = f"continues at step {first_step:,}" if found else "starts"
            say(
                f"{job.directory}: {source}, sample {cursor.next_sample:,}, attempt {recorder.attempt}, "
                f"{world.size} ranks on {world.device.type}"
            )
        stepper = Stepper(model, optimizer, config, world)
        with Loader(
            job.plan,
            global_batch_size=config.train.global_batch_size,
            rank=world.rank,
            world_size=world.size,
            cursor=cursor,
            num_steps=config.train.steps - first_step,
            threads=config.loader.threads,
            prefetch=config.loader.prefetch,
            cache_dir=config.loader.cache_dir,
        ) as loader:
            done = first_step
            for batch in in_step(loader, world, stop):
                result = stepper.step(done, batch, stop=stop.wanted)
                if recorder is not None:
                    recorder.record(done, batch, result)
                done += 1
                last = done == config.train.steps
                if last or result.stop or done % config.train.checkpoint_every == 0:
                    _save(checkpoints, state, job, world, recorder, step=done, cursor=batch.cursor)
                if result.stop and not last:
                    if recorder is not None:
                        say(f"asked to stop: step {done:,} is saved, the same command continues")
                    return
        assert done == config.train.steps, "the loader ends with the plan's number of steps"
    finally:
        if recorder is not None:
            recorder.close()


def build_model(config: RunConfig, world: World) -> Transformer:
    """The model, sharded, with its first weights; no rank ever holds all of it."""
    with torch.device("meta"):
        model = Transformer(config.model)
    shard(model, world.mesh, half=is_half(config.train.precision, world.device))
    model.to_empty(device=world.device)
    initialise(model, config.train.seed)
    return model


def _check(record: CheckpointRecord, job: Job) -> None:
    """Raises `MismatchError` if the run described by `job` is not the one the checkpoint is of."""
    job.plan.check(record.cursor)
    model = job.config.model.model_dump(mode="json")
    changed = [
        f"{key} {record.model.get(key)!r} -> {model.get(key)!r}"
        for key in sorted(model.keys() | record.model.keys())
        if model.get(key) != record.model.get(key)
    ]
    if changed:
        raise MismatchError(
            f"{job.directory}: the model section differs from the checkpoint's ({'; '.join(changed)}); restore it, or "
            "start the new model in a run directory of its own"
        )


def _save(
    checkpoints: Checkpoints,
    state: dict[str, Any],
    job: Job,
    world: World,
    recorder: Recorder | None,
    *,
    step: int,
    cursor: Cursor,
) -> None:
    began = time.perf_counter()
    if recorder is not None:
        recorder.sync()

    def make_record(files: dict[str, StoredFile]) -> CheckpointRecord:
        assert recorder is not None  # called on rank 0
        return CheckpointRecord(
            step=step,
            cursor=cursor,
            attempt=recorder.attempt,
            world_size=world.size,
            global_batch_size=job.config.train.global_batch_size,
            config_hash=job.config.hash,
            model=job.config.model.model_dump(mode="json"),
            files=files,
        )

    path = checkpoints.save(step, state, make_record)
    if recorder is not None:
        say(f"saved {path} in {time.perf_counter() - began:.2f} s")
        recorder.restart_clock()


def _make_deterministic() -> None:
    """The same bits from the same start at the same world size (docs/train.md)."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.use_deterministic_algorithms(True)
    # Poisons memory that is overwritten anyway; 4 % of a CPU step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(1)  # a sum's order follows the number of threads
