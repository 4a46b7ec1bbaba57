"""The streaming loader: an iterator over a plan, some batches ahead of its caller.

Order comes from arithmetic, so nothing here can change it: threads only decide when a batch is ready. The state is
what was handed out, never what was fetched ahead.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.dataeng.assemble import Assembler, rank_ids
from headrace.dataeng.batch import Batch
from headrace.dataeng.plan import MAX_SAMPLE, Plan
from headrace.dataeng.threads import Threads
from headrace.errors import UsageError
from headrace.manifests.cursor import Cursor

_FETCH_THREADS = 8  # downloads wait on the network, not on a core
_FETCH_AHEAD = 4  # shards are opened this many times further ahead than batches are built
_CLOSE_SECONDS = 5.0  # a store that does not answer holds no job back


class Loader:
    """Yields this rank's part of every global batch, in order, each with the cursor that follows it.

        with Loader(plan, global_batch_size=64, rank=rank, world_size=world_size) as loader:
            for batch in loader:
                ...

    The global batch is the next `global_batch_size` sample ids; rank r takes those with id % world_size == r. Any
    world size and any batch size may go on from any cursor. Ranks may differ by one row where the batch size is not
    a multiple of the world size. Every rank yields the same number of batches (law 9).

    A loader is its own iterator, for one pass, in one process and one consuming thread. An error skips nothing: after
    it the loader stands where it stood, and `next` asks for the same batch again.
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
        self._num_steps, self._end_sample = num_steps, end_sample
        self._assembler = Assembler(plan, None if cache_dir is None else Path(cache_dir))
        self._depth = prefetch
        self._builders = Threads(threads, "headrace-build") if threads else None
        self._fetchers = Threads(_FETCH_THREADS, "headrace-fetch") if threads else None
        self._ready: deque[Future[Batch]] = deque()
        self._started = self._closed = False
        self.wait_seconds = 0.0
        """Seconds that all callers together have waited in `next`."""
        self._cursor = plan.cursor() if cursor is None else cursor
        self._seek(self._cursor)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            raise UsageError("the loader is closed; make a new one from the last batch's cursor")
        self._started = True
        began = time.perf_counter()
        try:
            batch = self._take()
        except BaseException:
            self._ready.clear()
            self._next = self._cursor.next_sample
            raise
        if batch is None:
            raise StopIteration
        self._cursor = batch.cursor
        waited = time.perf_counter() - began
        self.wait_seconds += waited
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
        """Stops the threads; batches and downloads under way are dropped, within seconds. Idempotent."""
        self._closed = True
        self._ready.clear()
        self._assembler.close()
        for threads in (self._builders, self._fetchers):
            if threads is not None:
                threads.close(_CLOSE_SECONDS)

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
        start = self._next = self._announced = self._plan.check(cursor)
        steps_end = MAX_SAMPLE if self._num_steps is None else start + self._num_steps * self._batch_size
        self._end = min(MAX_SAMPLE if self._end_sample is None else self._end_sample, steps_end, MAX_SAMPLE)
        # A cursor of a plan that this one extends is, from here on, a cursor of this one.
        self._cursor = self._plan.cursor(start)

    def _bounds(self) -> tuple[int, int] | None:
        """The global batch to be built next, or None past the end."""
        end = min(self._next + self._batch_size, self._end)
        return (self._next, end) if self._next < end else None

    def _take(self) -> Batch | None:
        if self._builders is not None:
            self._schedule(self._builders)
            return self._ready.popleft().result() if self._ready else None
        bounds = self._bounds()
        if bounds is None:
            return None
        self._next = bounds[1]
        return self._assembler.build(*bounds, self._rank, self._world_size)

    def _schedule(self, builders: Threads) -> None:
        """Keeps `prefetch` batches under way, and their shards' downloads further ahead."""
        while len(self._ready) < self._depth and (bounds := self._bounds()) is not None:
            self._announce_until(min(self._next + self._batch_size * self._depth * _FETCH_AHEAD, self._end))
            self._next = bounds[1]
            self._ready.append(builders.submit(self._assembler.build, *bounds, self._rank, self._world_size))

    def _announce_until(self, sample: int) -> None:
        if self._fetchers is None or sample <= self._announced:
            return
        ids = rank_ids(self._announced, sample, self._rank, self._world_size)
        self._announced = sample
        self._assembler.announce(ids, self._fetchers)


def _at_least(name: str, value: int, low: int) -> None:
    if type(value) is not int or value < low:
        raise UsageError(f"{name} is {value!r}; expected an integer of at least {low}")
