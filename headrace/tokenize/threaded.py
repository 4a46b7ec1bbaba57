"""Work that threads share and that its caller wants in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

S = TypeVar("S")
T = TypeVar("T")

Progress: TypeAlias = Callable[[str, int, int], None]  # of what, how many are done, of how many


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Tells nobody."""


def in_order(
    function: Callable[[S], T], items: Sequence[S], threads: int, what: str, on_progress: Progress
) -> list[T]:
    """The result of every item. Once it is a failed item's turn nothing more is begun, and what is under way is waited for."""
    results: list[T] = []
    with ThreadPoolExecutor(max_workers=threads) as pool:
        futures = [pool.submit(function, item) for item in items]
        try:
            for future in futures:
                results.append(future.result())
                on_progress(what, len(results), len(items))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return results
