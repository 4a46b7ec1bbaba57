"""What rank 0 writes down about each step: ledger, metrics, and a line for whoever watches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from headrace.dataeng.storage import write_whole
from headrace.manifests.ledger import LEDGER, Ledger
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
        self._metrics = MetricsLog(
            job.directory, tensorboard=job.config.metrics.tensorboard, first_step=first_step
        )
        self._clock = time.perf_counter()

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
