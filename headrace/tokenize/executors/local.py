"""A few spawned processes, each with one unit at a time, so that it is known what a process was doing when it died.

The standard library's pool only says that it is broken. Here each worker has a pipe of its own, gets its next unit
when it has finished one, and is watched.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import TracebackType

from headrace.errors import WorkerError
from headrace.tokenize.executors import process
from headrace.tokenize.executors.base import Counts, Done, Failed, Task
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.executors.watch import Watch
from headrace.tokenize.tools import Context


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    watch: Watch
    task: Task | None = None


class LocalExecutor:
    """Runs tasks in `num_workers` processes. Use as a context manager: leaving it ends them, whatever they do.

    A worker that says nothing and uses no processor for STUCK_LOOKS looks is stuck: stopped, or waiting for a lock or
    a store that will never answer (clients give up long before).
    """

    LOOK_SECONDS = 30.0
    STUCK_LOOKS = 30

    def __init__(self, num_workers: int, context: Context) -> None:
        # A forked tokenizer may hold a lock of a thread that is gone.
        spawn = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        # Ctrl-C reaches the whole group, and the parent decides. A worker is born with it blocked, or it would break
        # off its imports with a traceback; for the parent it waits. (Starting the tracker would unblock it again.)
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for number in range(num_workers):
                ours, theirs = spawn.Pipe()
                child = spawn.Process(
                    target=process.main,
                    args=(theirs, context),
                    name=f"headrace-tokenize-{number}",
                    daemon=True,
                )
                child.start()
                theirs.close()
                assert child.pid is not None  # it was started
                self._workers.append(_Worker(child, ours, Watch(child.pid)))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self, tasks: Sequence[Task], stop: Stop) -> Iterator[tuple[int, Counts | Done]]:
        """See `Executor.run`."""
        waiting = iter(() if stop.requested else tasks)
        next_look = time.monotonic() + self.LOOK_SECONDS
        for each in self._workers:
            self._give(each, next(waiting, None))
        while busy := [each for each in self._workers if each.task is not None]:
            # Once requested, a stop stays readable: it is waited for only until then.
            also = [] if stop.requested else [stop.fileno()]
            ready = wait([*also, *(each.connection for each in busy)], self.LOOK_SECONDS)
            if stop.requested:
                waiting = iter(())
                stop.heard(len(busy))
            if looking := time.monotonic() >= next_look:
                next_look = time.monotonic() + self.LOOK_SECONDS
            for each in busy:
                assert each.task is not None
                if each.connection not in ready:
                    if looking:
                        self._look(each, each.task)
                    continue
                each.watch.reported()
                unit = each.task.unit.index
                try:
                    report = each.connection.recv()
                except (EOFError, OSError):
                    raise WorkerError(_obituary(each)) from None
                if isinstance(report, Failed):
                    raise report.error(each.task)
                if isinstance(report, Done):
                    self._give(each, next(waiting, None))
                yield unit, report

    def _look(self, each: _Worker, task: Task) -> None:
        each.watch.look()
        if each.watch.idle_looks >= self.STUCK_LOOKS:
            raise WorkerError(
                f"{task.describe()}: the worker process {each.process.pid} has said nothing and used no processor for "
                f"{self.STUCK_LOOKS * self.LOOK_SECONDS:,.0f} seconds; it is stopped or stuck, and is ended. Finished "
                "units are kept: the same command continues with this one"
            )

    def _give(self, each: _Worker, task: Task | None) -> None:
        each.task = task
        try:
            each.connection.send(task)
        except OSError:  # it has died; `run` says so if it had something to do
            if task is not None:
                raise WorkerError(_obituary(each)) from None

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self._workers:
            if kind is not None:
                each.process.kill()  # nothing to save: what a unit stored is whole, and an open unit is done again
            each.connection.close()
        for each in self._workers:
            each.process.join(timeout=10)
            if each.process.is_alive():
                each.process.kill()
                each.process.join()
            each.process.close()


def _obituary(each: _Worker) -> str:
    each.process.join(timeout=10)
    code = each.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    doing = each.task.describe() if each.task is not None else "starting"
    return (
        f"{doing}: the worker process ended by {how}. Finished units are kept: the same command continues "
        "with this one. If it was the kernel for want of memory, use fewer --workers; if it was a fast tokenizer "
        "that crashed, --tokenizer-backend reference gives the same bytes without it"
    )
