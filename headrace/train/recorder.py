"""What rank 0 writes down about each step: ledger, metrics, and a line for whoever watches."""

from __future__ import annotations

import platform
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace import __version__
from headrace.dataeng.storage import write_whole
from headrace.manifests.ledger import LEDGER, Ledger
from headrace.manifests.run import RUN, RunManifest, Start
from headrace.train.job import CONFIG, PLAN, Job
from headrace.train.leftovers import remove_leftovers
from headrace.train.metrics import MetricsLog, StepMetrics
from headrace.train.step import StepResult

if TYPE_CHECKING:
    from headrace.dataeng.batch import Batch


class Recorder:
    """The single writer of a run directory. Steps are in the files when `record` returns, durable after `sync`."""

    def __init__(self, job: Job, *, first_step: int, next_sample: int) -> None:
        self._length = job.config.data.sequence_length
        remove_leftovers(job.directory)
        if not (job.directory / PLAN).exists():
            job.plan.save(job.directory / PLAN)
        write_whole(job.directory / CONFIG, job.config.to_yaml().encode())
        self._ledger = Ledger.open(job.directory / LEDGER)
        self.attempt = self._ledger.begin(
            plan_hash=job.plan.hash,
            first_step=first_step,
            next_sample=next_sample,
            world_size=job.place.size,
            global_batch_size=job.config.train.global_batch_size,
        )
        self._note_start(job, first_step)
        self._metrics = MetricsLog(
            job.directory, tensorboard=job.config.metrics.tensorboard, first_step=first_step
        )
        self._clock = time.perf_counter()

    def _note_start(self, job: Job, first_step: int) -> None:
        path = job.directory / RUN
        before = RunManifest.from_bytes(path.read_bytes(), str(path)) if path.exists() else RunManifest()
        start = Start(
            attempt=self.attempt,
            first_step=first_step,
            plan_hash=job.plan.hash,
            config_hash=job.config.hash,
            world_size=job.place.size,
            device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            datasets={source.name: source.content_hash for source in job.plan.sources},
            software={
                "headrace": __version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
            },
        )
        write_whole(path, before.with_start(start).to_bytes())

    def record(self, step: int, batch: Batch, result: StepResult) -> None:
        seconds = time.perf_counter() - self._clock
        self.restart_clock()
        rows = batch.end_sample - batch.first_sample
        share_LE = result.counts_LE / result.counts_LE.sum(dim=1, keepdim=True)
        metrics = StepMetrics(
            step=step,
            attempt=self.attempt,
            loss=result.loss,
            grad_norm=result.grad_norm,
            lr=result.lr,
            tokens=batch.end_sample * self._length,
            tokens_per_second=rows * self._length / seconds,
            seconds=seconds,
            wait_seconds=result.wait_seconds,
            first_sample=batch.first_sample,
            end_sample=batch.end_sample,
            digest=f"{result.digest:016x}",
            expert_max=share_LE.amax(dim=1).tolist(),
            expert_min=share_LE.amin(dim=1).tolist(),
            router_entropy=result.entropy_L.tolist(),
            balance_loss=result.balance_L.tolist(),
            z_loss=result.z_L.tolist(),
        )
        self._ledger.step(step, batch.first_sample, batch.end_sample, result.digest)
        self._metrics.write(metrics)
        say(metrics.line())

    def restart_clock(self) -> None:
        """What happened since the last step is not part of the next one."""
        self._clock = time.perf_counter()

    def sync(self) -> None:
        """Makes all steps so far durable; before the commit of a checkpoint, which must not know more than they."""
        self._ledger.sync()
        self._metrics.sync()

    def close(self) -> None:
        self._ledger.close()
        self._metrics.close()


def say(line: str) -> None:
    """A line for a person, at once, also through a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
