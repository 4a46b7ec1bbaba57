"""Ctrl-C: once, and open units are finished while no other is begun; again, and everything stops at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Stop:
    """Whether a run has been asked to end. As a context manager it listens to SIGINT, where it may (the main thread).

    `tell` is called once, with how many units are still open, when an executor has heard of it: not in the handler, which
    may have interrupted a print.
    """

    def __init__(self, tell: Callable[[int], None] | None = None) -> None:
        self.requested = False
        self._insisted = False
        self._tell = tell
        self._read, self._write = os.pipe()
        self._before: Any = None

    def request(self) -> None:
        if not self.requested:
            self.requested = True
            os.write(self._write, b"\0")

    def fileno(self) -> int:
        """Becomes readable with the request, so that whoever waits for workers can wait for it too."""
        return self._read

    def heard(self, num_open: int) -> None:
        """An executor begins nothing more and is about to finish `num_open` units. To be called now and then until it has.

        Raises:
            KeyboardInterrupt: everything is to stop at once. It was raised before, where a library may have swallowed it.
        """
        if self._insisted:
            raise KeyboardInterrupt
        if self._tell is not None:
            self._tell(num_open)
            self._tell = None

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._insisted = True
            signal.default_int_handler(number, frame)
        self.request()

    def __enter__(self) -> Stop:
        # Where Ctrl-C is ignored (nohup, a shell's background job) or already somebody else's, it stays so.
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        os.close(self._read)
        os.close(self._write)
