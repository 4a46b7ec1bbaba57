"""What a process and all below it use, seen from outside: for programs whose workers nobody waits for, too."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(root: int) -> list[int]:
    """A process and all below it, as far as they are alive."""
    found, left = [], [root]
    while left:
        found.append(left.pop())
        for children in Path(f"/proc/{found[-1]}/task").glob("*/children"):
            try:
                left += map(int, children.read_text().split())
            except OSError:  # it has just ended
                continue
    return found


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def processor_seconds(pid: int) -> float:
    """Of all its threads, 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK


class Sampler(threading.Thread):
    """Looks at a process and all below it ten times a second, until it is told that it is `over`.

    largest: the largest sum of resident memory, in which shared pages count once for each process. seconds: processor time
    of all of them, but for what each used after the last look at it.
    """

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._over = threading.Event()
        self._seconds: dict[int, float] = {}
        self.largest = 0

    def run(self) -> None:
        while not self._over.wait(0.1):
            pids = tree(self._root)
            self.largest = max(self.largest, sum(map(resident_bytes, pids)))
            for pid in pids:
                self._seconds[pid] = max(self._seconds.get(pid, 0.0), processor_seconds(pid))

    def over(self) -> None:
        self._over.set()
        self.join()

    @property
    def seconds(self) -> float:
        return sum(self._seconds.values())
