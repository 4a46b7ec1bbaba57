"""What ranks must have in common: the run, the directory, and before each step that all of them can take it.

A rank that fails alone leaves the others in a collective that it will never enter. With gloo they notice at once,
with NCCL only after the timeout; so what can fail on one rank only is told to all before they wait for each other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import torch

from headrace.dataeng.storage import write_whole
from headrace.errors import MismatchError, UsageError, WorkerError
from headrace.manifests.canonical import canonical_json, sha256_hex
from headrace.train.job import Job
from headrace.train.parallel import World
from headrace.train.signals import StopRequest

if TYPE_CHECKING:
    from headrace.dataeng.batch import Batch

# A network file system may show a new file to its other clients a moment later.
VISIBLE_WITHIN_SECONDS = 5.0

_READY, _FAILED, _ORPHANED = range(3)


def require_same_run(job: Job, world: World) -> None:
    """Also a barrier. Rank 0 must hold the run directory.

    Raises, on every rank alike:
        MismatchError: a rank has another configuration or plan than rank 0. Its `loader` section may differ: it
            changes no sample, and a cache is a matter of the node.
        UsageError: a rank does not see what rank 0 writes to the run directory.
    """
    config = job.config.model_dump(mode="json", exclude={"loader"})
    ours = {f"{name} section": sha256_hex(canonical_json(value)) for name, value in config.items()}
    ours["plan (its datasets, or the versions of what reads them)"] = job.plan.hash
    mark = f".tmp-meeting-{uuid.uuid4().hex}"
    if world.rank == 0:
        write_whole(job.directory / mark, b"")
    told = cast(list[tuple[dict[str, str], str]], world.gather((ours, mark)))
    expected, mark = told[0]
    for rank, (theirs, _) in enumerate(told):
        differing = [name for name, value in expected.items() if theirs[name] != value]
        if differing:
            raise MismatchError(
                f"rank {rank} has another {' and another '.join(differing)} than rank 0; the ranks would train different "
                "runs. Start all of them from the same run.yaml, --set values and data"
            )
    seen = _appears(job, mark)
    blind = [str(rank) for rank, sees in enumerate(world.gather(seen)) if not sees]
    if world.rank == 0:
        (job.directory / mark).unlink()
    if blind:
        raise UsageError(
            f"run.dir: what rank 0 writes to {job.directory} is not there for the ranks {', '.join(blind)}; checkpoints "
            "would be torn apart. Give a directory on a file system that all machines of the job share"
        )


def _appears(job: Job, name: str) -> bool:
    deadline = time.monotonic() + VISIBLE_WITHIN_SECONDS
    while not (job.directory / name).exists():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def in_step(loader: Iterator[Batch], world: World, stop: StopRequest) -> Iterator[Batch]:
    """This rank's batches, each once every rank has its own; one small collective a batch.

    Raises:
        Exception: whatever the loader raised, on the rank where it did.
        WorkerError: on the other ranks then; on all where the launcher of one is gone.
    """
    while True:
        batch, failure = None, None
        try:
            batch = next(loader, None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others must not wait for this rank
            failure = error
        states = torch.zeros(world.size, dtype=torch.int32, device=world.device)
        states[world.rank] = _FAILED if failure else _ORPHANED if stop.orphaned else _READY
        told = world.sum(states).tolist()
        if failure is not None:
            raise failure
        for state, problem in (
            (_FAILED, "could not read its part of the next batch, and says why"),
            (_ORPHANED, "the launcher is gone; a restart must find the run free"),
        ):
            if state in told:
                ranks = ", ".join(str(rank) for rank, value in enumerate(told) if value == state)
                raise WorkerError(f"rank {world.rank} ends before its next step; rank {ranks}: {problem}")
        if batch is None:
            return
        yield batch
