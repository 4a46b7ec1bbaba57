"""A polite end: SIGTERM or SIGINT asks for it, the ranks agree on the step it comes after."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A scheduler that signals a whole process group reaches a rank twice: itself, and through torchrun, which passes on
# what it got. Within this time that is one request.
SAME_REQUEST_SECONDS = 5.0


class StopRequest:
    """Set when this process was asked to stop. Asked again later, it ends at once, as if nobody had listened."""

    def __init__(self, *, launched: bool) -> None:
        self._asked: float | None = None
        self._parent = os.getppid() if launched else None

    @property
    def wanted(self) -> bool:
        return self._asked is not None

    @property
    def orphaned(self) -> bool:
        """Whether the launcher is gone. A worker must not outlive it: its restart would find the run in use."""
        return self._parent is not None and os.getppid() != self._parent

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes the two signals over for as long as it lasts."""
        before = {number: signal.signal(number, self._receive) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._asked is None:
            self._asked = now
        elif now - self._asked > SAME_REQUEST_SECONDS:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
            os.kill(os.getpid(), number)
