"""One line on a terminal that counts, for work which is quick or has no estimate."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.tokenize.threaded import Progress


@contextmanager
def counter(*, quiet: bool) -> Iterator[Progress]:
    """What to call with what is counted, how many are done, and of how many. Silent where stderr is no terminal."""
    live = sys.stderr.isatty() and not quiet

    def show(what: str, done: int, total: int) -> None:
        if live:
            print(f"\r{done:,} of {total:,} {what} ", end="", file=sys.stderr, flush=True)

    try:
        yield show
    except KeyboardInterrupt:
        print("\nheadrace: stopped; what is done is kept, the same command continues", file=sys.stderr)
        raise
    finally:
        if live:
            print(file=sys.stderr)
