"""One job per run directory. The kernel holds the lock, so a killed job leaves nothing to clean up."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import MismatchError, UsageError

# A worker whose launcher was killed ends at its next step; a restart gives it this long.
PATIENCE_SECONDS = 30.0


@contextmanager
def run_lock(directory: Path, *, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Holds `directory` for this process.

    Raises:
        MismatchError: another job still holds it after `patience` seconds.
        UsageError: its file system has no locks.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, directory, patience)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, directory: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise MismatchError(
                    f"{directory}: another job is training in this run directory; two would mix their ledgers. End "
                    "that job, or give this one a directory of its own (--set run.dir=…)"
                ) from None
            if not told:
                sys.stderr.write(f"headrace train: {directory} is in use; waiting up to {patience:.0f} s\n")
                told = True
            time.sleep(0.1)
        except OSError as error:
            raise UsageError(
                f"{directory}: its file system cannot lock files ({error.strerror}), so nothing would keep a second job "
                "out; mount it with locks (Lustre: `flock`), or choose another run.dir"
            ) from None
