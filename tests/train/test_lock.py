from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import MismatchError, UsageError
from headrace.train.lock import run_lock

HOLD = """
import sys, time
from pathlib import Path
from headrace.train.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_job_is_refused_and_a_killed_one_leaves_nothing_to_clean(tmp_path: Path) -> None:
    """Two jobs on one directory, then kill -9 and a start at once (B6)."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with (
            pytest.raises(MismatchError, match="another job is training in this run directory"),
            run_lock(tmp_path, patience=0),
        ):
            pass
        holder.kill()
    with run_lock(tmp_path, patience=0):
        pass


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path):
        _ = 1 / 0
    with run_lock(tmp_path, patience=0):
        pass


def test_a_file_system_without_locks_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lustre mounted without `flock`, for one; none is at hand here."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UsageError, match="cannot lock files"), run_lock(tmp_path, patience=0):
        pass
