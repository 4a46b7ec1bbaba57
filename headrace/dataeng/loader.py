"""The streaming loader: an iterator over a plan, some batches ahead of its caller.

Order comes from arithmetic, so nothing here can change it: threads only decide when a batch is ready. The state is
what was handed out, never what was fetched ahead.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.dataeng.assemble import Assembler, rank_ids
from headrace.dataeng.batch import Batch
from headrace.dataeng.plan import MAX_SAMPLE, Plan
from headrace.errors import UsageError
from headrace.manifests.cursor import Cursor

_FETCH_THREADS = 8  # downloads wait on the network, not on a core
_FETCH_AHEAD = 4  # shards are opened this many times further ahead than batches are built


class Loader:
    """Yields this rank's part of every global batch, in order, each with the cursor that follows it.

        with Loader(plan, global_batch_size=64, rank=rank, world_size=world_size) as loader:
            for batch in loader:
                ...

    The global batch is the next `global_batch_size` sample ids; rank r takes those with id % world_size == r. Any
    world size and any batch size may go on from any cursor. Ranks may differ by one row where the batch size is not
    a multiple of the world size. Every rank yields the same number of batches (law 9).

    A loader is its own iterator, for one pass, in one process and one consuming thread.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        global_batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        cursor: Cursor | None = None,
        num_steps: int | None = None,
        end_sample: int | None = None,
        threads: int = 2,
        prefetch: int = 4,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Opens no shard yet.

        cursor: where to start; None is the first sample. num_steps: batches to yield; None is without end.
        end_sample: no id at or past it is handed out; the last batch may be short (even empty for a rank).
        threads: 0 builds each batch when it is asked for. prefetch: batches built ahead.

        Raises:
            UsageError: a number out of range, or a plan without datasets.
            MismatchError: the cursor belongs to another plan.
        """
        _at_least("global_batch_size", global_batch_size, 1)
        _at_least("world_size", world_size, 1)
        _at_least("threads", threads, 0)
        _at_least("prefetch", prefetch, 1)
        for name, value in (("num_steps", num_steps), ("end_sample", end_sample)):
            if value is not None:
                _at_least(name, value, 0)
        if not 0 <= rank < world_size:
            raise UsageError(f"rank {rank} of world size {world_size}; expected 0 <= rank < {world_size}")
        self._plan = plan
        self._batch_size = global_batch_size
        self._rank, self._world_size = rank, world_size
        self._num_steps, self._end = num_steps, end_sample
        self._assembler = Assembler(plan, None if cache_dir is None else Path(cache_dir))
        self._depth = prefetch
        self._builders = ThreadPoolExecutor(threads, "headrace-build") if threads else None
        self._fetchers = ThreadPoolExecutor(_FETCH_THREADS, "headrace-fetch") if threads else None
        self._ready: deque[Future[Batch]] = deque()
        self._handed_steps = 0
        self._started = self._closed = False
        self.wait_seconds = 0.0
        """Seconds that all callers together have waited in `next`."""
        self._seek(plan.cursor() if cursor is None else cursor)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            raise UsageError("the loader is closed; make a new one from the last batch's cursor")
        self._started = True
        began = time.perf_counter()
        batch = self._take()
        if batch is None:
            raise StopIteration
        waited = time.perf_counter() - began
        self.wait_seconds += waited
        self._handed_steps += 1
        self._cursor = batch.cursor
        return replace(batch, wait_seconds=waited)

    def state_dict(self) -> dict[str, Any]:
        """The cursor after the last batch handed out, as a small dictionary; the same on every rank."""
        return self._cursor.to_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state of any loader of the same plan, whatever its world or batch size.

        Raises:
            UsageError: batches were already handed out; a position set now would be ignored by those in flight.
            InputError: not a state. MismatchError: a state of another plan.
        """
        if self._started:
            raise UsageError(
                "load_state_dict after the first batch; make a new Loader and load the state into it"
            )
        self._seek(Cursor.from_dict(state))

    @property
    def bytes_fetched(self) -> int:
        """Bytes this process moved from remote or compressed datasets into the node cache."""
        return self._assembler.bytes_fetched

    def close(self) -> None:
        """Stops the threads; batches under way are dropped. Idempotent."""
        self._closed = True
        self._ready.clear()
        for pool in (self._builders, self._fetchers):
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _seek(self, cursor: Cursor) -> None:
        self._next = self._announced = self._plan.check(cursor)
        # A cursor of a plan that this one extends is, from here on, a cursor of this one.
        self._cursor = self._plan.cursor(self._next)

    def _bounds(self, first: int) -> tuple[int, int] | None:
        """The global batch that starts at `first`, or None past the end."""
        end = min(first + self._batch_size, MAX_SAMPLE if self._end is None else self._end)
        return (first, end) if first < end else None

    def _take(self) -> Batch | None:
        if self._num_steps is not None and self._handed_steps >= self._num_steps:
            return None
        if self._builders is None:
            bounds = self._bounds(self._next)
            if bounds is None:
                return None
            self._next = bounds[1]
            return self._assembler.build(*bounds, self._rank, self._world_size)
        self._schedule(self._builders)
        return self._ready.popleft().result() if self._ready else None

    def _schedule(self, builders: ThreadPoolExecutor) -> None:
        """Keeps `prefetch` batches under way, and their shards' downloads further ahead."""
        steps_left = self._depth if self._num_steps is None else self._num_steps - self._handed_steps
        while len(self._ready) < min(self._depth, steps_left):
            bounds = self._bounds(self._next)
            if bounds is None:
                return
            self._announce_until(self._next + self._batch_size * self._depth * _FETCH_AHEAD)
            self._next = bounds[1]
            self._ready.append(builders.submit(self._assembler.build, *bounds, self._rank, self._world_size))

    def _announce_until(self, sample: int) -> None:
        sample = min(sample, MAX_SAMPLE if self._end is None else self._end)
        if self._fetchers is None or sample <= self._announced:
            return
        ids = rank_ids(self._announced, sample, self._rank, self._world_size)
        self._announced = sample
        self._assembler.announce(ids, self._fetchers)


def _at_least(name: str, value: int, low: int) -> None:
    if type(value) is not int or value < low:
        raise UsageError(f"{name} is {value!r}; expected an integer of at least {low}")
