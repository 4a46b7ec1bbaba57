"""Ctrl-C and SIGTERM end a job between two units' files: what is finished is kept, and the exit code says which it was."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TerminatedError(BaseException):
    """SIGTERM: like Ctrl-C, but with its own exit code."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Within it SIGTERM is a TerminatedError."""
    before = signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stopping(num_open: int) -> str:
    """What the first Ctrl-C does, in words."""
    return (
        f"Ctrl-C: finishing {num_open:,} open unit{'' if num_open == 1 else 's'} and beginning no other; "
        "Ctrl-C again stops at once"
    )


def tell_stopped(error: BaseException) -> int:
    """Says that the job can be continued, and returns the exit code."""
    print("\nheadrace: stopped; finished units are kept, the same command continues", file=sys.stderr)
    return 130 if isinstance(error, KeyboardInterrupt) else 143


def _on_sigterm(_number: int, _frame: Any) -> None:
    raise TerminatedError
