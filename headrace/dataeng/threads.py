"""A few threads that never keep a process from ending.

The standard library's pool is joined when the interpreter exits, after everything that waits in it has been done: a
program that leaves a loader open would first download all that was announced. These threads are daemons. What they do
is whole or absent on disk, so that they may be left at any instant.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")

_Calls = SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]


class Threads:
    """Calls run in the order given, by `count` threads, which start with the first call."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._calls: _Calls = SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end, self._calls, count).atexit = False

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        if not self._threads:
            self._threads = [
                threading.Thread(target=_work, args=(self._calls,), name=f"{self._name}-{n}", daemon=True)
                for n in range(self._count)
            ]
            for thread in self._threads:
                thread.start()
        future: Future[T] = Future()
        self._calls.put((future, function, args))
        return future

    def close(self, patience_seconds: float) -> None:
        """Drops what has not begun and waits for what has, but no longer than that: it is then left behind."""
        _end(self._calls, self._count)
        deadline = time.monotonic() + patience_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _work(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        future, function, args = call
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*args))
            except BaseException as error:  # noqa: BLE001 it is raised where the result is asked for
                future.set_exception(error)
        del call, future, function, args  # an idle thread keeps nothing alive


def _end(calls: _Calls, count: int) -> None:
    try:
        while True:
            call = calls.get_nowait()
            if call is not None:
                call[0].cancel()
    except Empty:
        pass
    for _ in range(count):
        calls.put(None)


def map_ahead(
    function: Callable[[S], T], items: Iterable[S], *, threads: int, ahead: int, name: str = "ahead"
) -> Iterator[T]:
    """`map`, with up to `ahead` results on the way or waiting, whatever the number of items.

    Raises what a call raised, in its place. Whoever stops listening does not wait for calls under way.
    """
    pool = Threads(threads, name)
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.close(0.0)
