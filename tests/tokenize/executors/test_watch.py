from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.tokenize.executors.watch import Watch

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").is_file(), reason="processor time is read in /proc"
)


def looks_at(script: str, count: int, pause: float) -> Watch:
    """Looks at a process that has got as far as to print a line."""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            watch = Watch(process.pid)
            for _ in range(count):
                watch.look()
                time.sleep(pause)
            return watch
        finally:
            process.kill()


def test_a_process_that_computes_in_silence_is_not_idle() -> None:
    assert looks_at("print(flush=True)\nwhile True: pass", 3, 0.5).idle_looks == 0


def test_a_process_that_waits_is_idle_until_it_reports() -> None:
    watch = looks_at("import time; print(flush=True); time.sleep(60)", 6, 0.2)
    assert watch.idle_looks >= 3
    watch.reported()
    assert watch.idle_looks == 0


def test_a_process_of_which_nothing_can_be_known_is_not_judged() -> None:
    watch = Watch(2**30)
    for _ in range(5):
        watch.look()
    assert watch.idle_looks == 0


def test_what_a_process_does_besides_its_work_is_not_work() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            watch = Watch(process.pid, background=60.0)
            for _ in range(3):
                watch.look()
            assert watch.idle_looks == 2, "the first look has nothing to compare with"
        finally:
            process.kill()
