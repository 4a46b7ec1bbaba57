"""Whether a worker process still does something: it reports, or at least it uses a processor."""

from __future__ import annotations

import os
from pathlib import Path


class Watch:
    """Counts in how many looks on end nothing was seen of a process.

    In looks rather than seconds, so that a machine that slept, or a job that was stopped and continued as a whole,
    finds its workers no older than before.
    """

    def __init__(self, pid: int, *, background: float = 0.0) -> None:
        """background: seconds of processor between two looks that are not work."""
        self._pid = pid
        self._background_ticks = background * os.sysconf("SC_CLK_TCK")
        self._used: int | None = None
        self.idle_looks = 0

    def reported(self) -> None:
        """The process has just said something."""
        self.idle_looks = 0

    def look(self) -> None:
        """Counts one more look at a process that may have said nothing since the last."""
        used = _processor_ticks(self._pid)
        idle = used is not None and self._used is not None and used - self._used <= self._background_ticks
        self.idle_looks = self.idle_looks + 1 if idle else 0
        self._used = used


def _processor_ticks(pid: int) -> int | None:
    """Processor time of all its threads, in the kernel's ticks; None where there is no /proc to tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(
        fields[12]
    )  # utime and stime: 14 and 15 of the line, 3 stands behind the name
