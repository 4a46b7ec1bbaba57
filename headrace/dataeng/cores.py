"""How many processors there are for this process."""

from __future__ import annotations

import os


def num_cores() -> int:
    """Those that it may use, which an affinity (of a batch system, of `taskset`) makes fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
