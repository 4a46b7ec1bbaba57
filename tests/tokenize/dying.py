"""Deaths at the n-th change of a store: as an exception after which nothing is changed any more, or for real.

`python -m tests.tokenize.dying N ARGUMENTS` is `headrace ARGUMENTS` that ends without any clean-up behind its n-th change, or for a
negative N before it. Changes of workers in other processes do not count.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.cli.main import main
from headrace.dataeng.storage import Store

CHANGES = ("write", "create", "replace", "remove")
KILLED = 99


class Died(BaseException):
    """What a process met that is no more."""


@contextmanager
def dying_at(last: int) -> Iterator[None]:
    """In this block the first `last` changes of any store are done; every later one raises `Died`."""

    def die(number: int) -> None:
        if number > last:
            raise Died

    with _counted(before=die):
        yield


@contextmanager
def _counted(
    before: Callable[[int], None] = lambda _: None, after: Callable[[int], None] = lambda _: None
) -> Iterator[None]:
    lock, seen = threading.Lock(), 0
    real = {name: getattr(Store, name) for name in CHANGES}

    def counted(change: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            with lock:
                seen += 1
                number = seen
            before(number)
            result = change(*args, **kwargs)
            after(number)
            return result

        return call

    for name, change in real.items():
        setattr(Store, name, counted(change))
    try:
        yield
    finally:
        for name, change in real.items():
            setattr(Store, name, change)


def _end_at(last: int) -> Callable[[int], None]:
    def end(number: int) -> None:
        if number == last:
            os._exit(KILLED)

    return end


if __name__ == "__main__":
    at = int(sys.argv[1])
    with _counted(before=_end_at(-at), after=_end_at(at)):
        code = main(sys.argv[2:])
    sys.exit(code)
