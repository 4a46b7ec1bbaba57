"""The cores of a Ray cluster: an actor on each, with one unit at a time, and no more units given out than there are actors.

A node may be lost at any time: its units are given to other actors. A worker that still writes when it has been given up, or
whose driver is dead, does no harm: what it writes is what the next one writes under the same names, whole or not at all.

Workers take nothing from the driver's environment. What opens the store must be set where the nodes were started (or the node
has a role); nothing secret passes through Ray.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from headrace.errors import IncompleteError, UsageError, WorkerError
from headrace.tokenize.executors.base import Counts, Done, Failed, Task
from headrace.tokenize.executors.ray_cluster import Cluster, last_line
from headrace.tokenize.executors.ray_worker import RayWorker, Ready, Seen
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.journal import Journal
from headrace.tokenize.software import software
from headrace.tokenize.tools import Context


@dataclass(eq=False, slots=True)
class _Worker:
    """An actor: being prepared, idle, or at work on `task`. `refs` are the calls it has not answered."""

    actor: Any
    ready: bool = False
    task: Task | None = None
    asked: float | None = None  # how far it is: when, if it has not answered
    refs: set[Any] = field(default_factory=set)


class RayExecutor:
    """Runs tasks on a Ray cluster. Leaving it ends the actors, and the cluster if it was begun here.

    A unit whose worker was lost MAX_LOSSES times ends the run: it may be what kills them.
    """

    MAX_LOSSES = 4
    MAX_FAILED_STARTS = 10
    START_SECONDS = 600.0  # for the first worker: a cluster may have to grow
    VISIBLE_SECONDS = 75.0  # NFS clients keep what they know of a directory for up to 60
    ASK_SECONDS = 1.0
    STUCK_LOOKS = 30  # of ray_worker.LOOK_SECONDS
    SILENT_SECONDS = 900.0  # a process that does not even say that it does nothing

    def __init__(
        self,
        context: Context,
        num_tasks: int,
        *,
        workers: int | None,
        address: str | None,
    ) -> None:
        """The job must have been begun in the journal: by that a node sees that it is on the same storage.

        Raises:
            MissingExtra: Ray is not installed.
            InputError, MismatchError, UsageError: the cluster does not answer, or cannot be used from here.
        """
        self._workers: dict[Any, _Worker] = {}  # by each call that is not answered
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._losses: Counter[int] = Counter()
        self._notes: list[str] = []
        self._failed_starts = 0
        self._cluster = Cluster()
        try:
            self._ray = self._cluster.connect(address, workers)
            cores = int(self._ray.cluster_resources().get("CPU", 0))
            if workers is None and not cores:
                raise UsageError(
                    "the Ray cluster has no CPU now; say with --workers how many to ask for, if it can grow"
                )
            self._num_workers = max(1, min(workers or cores, num_tasks))
            self._actor_class = self._ray.remote(RayWorker).options(
                num_cpus=1,
                max_restarts=0,
                max_task_retries=0,
                max_concurrency=2,
                scheduling_strategy="SPREAD",
            )
            self._arguments = (
                self._ray.put(context),
                Journal(context.store).job(),
                software(),
                self.VISIBLE_SECONDS,
            )
        except BaseException:
            self._close()
            raise

    def run(self, tasks: Sequence[Task], stop: Stop) -> Iterator[tuple[int, Counts | Done]]:
        """See `Executor.run`.

        Raises:
            IncompleteError: no worker could be placed for START_SECONDS.
        """
        waiting = deque(tasks)
        num_open = 0
        last_answer = time.monotonic()
        next_ask = last_answer + self.ASK_SECONDS
        while True:
            if stop.requested:
                waiting.clear()
                stop.heard(num_open)
            if not waiting and not num_open:
                return
            self._staff(len(waiting) + num_open)
            while waiting and self._idle:
                self._give(self._idle.pop(), waiting.popleft())
                num_open += 1
            for ref in self._answered():
                last_answer = time.monotonic()
                yield from self._heard(ref, waiting)
            num_open = sum(each.task is not None for each in self._all)
            if time.monotonic() >= next_ask:
                next_ask = time.monotonic() + self.ASK_SECONDS
                self._ask(waiting)
            if (
                not any(each.ready for each in self._all)
                and time.monotonic() > last_answer + self.START_SECONDS
            ):
                raise IncompleteError(
                    f"no worker could be placed on the Ray cluster for {self.START_SECONDS:,.0f} seconds: it has no free "
                    "CPU. Finished units are kept: the same command continues"
                )

    def _staff(self, needed: int) -> None:
        """As many actors as are wanted, those that wait for a core included."""
        while len(self._all) < min(self._num_workers, needed):
            worker = _Worker(self._actor_class.remote())
            self._all.add(worker)
            self._call(worker, "prepare", *self._arguments)

    def _call(self, worker: _Worker, method: str, *arguments: Any) -> None:
        ref = getattr(worker.actor, method).remote(*arguments)
        worker.refs.add(ref)
        self._workers[ref] = worker

    def _give(self, worker: _Worker, task: Task) -> None:
        worker.task = task
        self._call(worker, "run", task)

    def _ask(self, waiting: deque[Task]) -> None:
        now = time.monotonic()
        for each in [each for each in self._all if each.task is not None]:
            if each.asked is None:
                each.asked = now
                self._call(each, "look")
            elif now - each.asked >= self.SILENT_SECONDS:
                self._lose(each, "it does not answer", waiting)

    def _answered(self) -> list[Any]:
        """Calls that have ended, however; waits up to ASK_SECONDS for one."""
        refs = list(self._workers)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=self.ASK_SECONDS)
        if ready:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        return list(ready)

    def _heard(self, ref: Any, waiting: deque[Task]) -> Iterator[tuple[int, Counts | Done]]:
        worker = self._workers.pop(ref, None)
        if worker is None:
            return  # of a worker that has been given up
        worker.refs.discard(ref)
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            # A task that cannot be unpacked, a package that is missing.
            raise WorkerError(f"a worker on the Ray cluster failed: {last_line(error)}") from None
        except self._ray.exceptions.RayError as error:
            self._lose(worker, last_line(error), waiting)
            return
        task = worker.task
        if isinstance(answer, Failed):
            raise answer.error(task) if task is not None else (answer.kind or WorkerError)(answer.message)
        if isinstance(answer, Ready):
            worker.ready = True
            self._failed_starts = 0
            self._idle.append(worker)
        elif task is not None and isinstance(answer, Done):
            worker.task = None
            self._idle.append(worker)
            yield task.unit.index, Done(answer.result, (*answer.notes, *self._notes))
            self._notes.clear()
        elif isinstance(answer, Seen):
            worker.asked = None
            if task is not None and answer.idle_looks >= self.STUCK_LOOKS:
                self._lose(worker, "it has said nothing and used no processor for too long", waiting)
            elif task is not None:
                yield task.unit.index, answer.counts

    def _lose(self, worker: _Worker, reason: str, waiting: deque[Task]) -> None:
        """Gives a worker up, and its unit to the next one."""
        self._all.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        for ref in worker.refs:
            self._workers.pop(ref, None)
        self._kill(worker)
        if worker.task is not None:
            unit = worker.task.unit.index
            self._losses[unit] += 1
            if self._losses[unit] >= self.MAX_LOSSES:
                raise WorkerError(
                    f"{worker.task.describe()}: the worker that had this unit was lost {self.MAX_LOSSES} times, the last "
                    f"time with: {reason}. Finished units are kept: the same command continues with this one. If nodes run "
                    "out of memory, start Ray with fewer --num-cpus a node; if a fast tokenizer crashes, "
                    "--tokenizer-backend reference gives the same bytes without it"
                )
            self._notes.append(
                f"a worker on the Ray cluster was lost ({reason}); another one did unit {unit}"
            )
            waiting.appendleft(worker.task)
        elif not worker.ready:
            self._failed_starts += 1
            if (
                self._failed_starts >= self.MAX_FAILED_STARTS + self._num_workers
            ):  # more than one lost node explains
                raise WorkerError(
                    f"{self._failed_starts:,} workers on the Ray cluster ended before they had begun, the last one with: "
                    f"{reason}. Is headrace installed on every node?"
                )

    def _kill(self, worker: _Worker) -> None:
        try:
            self._ray.kill(worker.actor, no_restart=True)
        except Exception:  # noqa: BLE001 it is gone, or its cluster is
            pass

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for each in self._all:
            self._kill(each)
        self._workers, self._idle, self._all = {}, [], set()
        self._cluster.close()
