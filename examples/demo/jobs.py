"""Starting a training job with torchrun, watching it, and killing it as a power cut would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

Say = Callable[[str], None]


class Job:
    """One `torchrun`; its output is shown line by line."""

    def __init__(self, config: Path, run_dir: Path, *, processes: int, say: Say) -> None:
        command = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        command += ["-m", "headrace", "train", str(config), "--set", f"run.dir={run_dir}"]
        say(f"  $ torchrun --nproc_per_node {processes} -m headrace train {config} --set run.dir={run_dir}")
        self._metrics = run_dir / "metrics.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self._printer = threading.Thread(target=self._forward, args=(say,), daemon=True)
        self._printer.start()

    def _forward(self, say: Say) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                say(f"  | {line.rstrip()}")

    def wait(self) -> int:
        """The exit code, once everything the job printed has been shown."""
        code = self._process.wait()
        self._printer.join(timeout=10)
        return code

    def kill_after(self, step: int) -> int:
        """SIGKILLs every process of the job as soon as `step` is in its metrics; returns the last step seen there.

        Nothing gets a chance to finish, flush or say goodbye: torchrun and the ranks, each its own session, all go.
        """
        while (seen := self._last_step()) < step:
            if self._process.poll() is not None:
                raise SystemExit(
                    f"the job ended with exit code {self._process.returncode} before step {step}"
                )
            time.sleep(0.01)
        for pid in (self._process.pid, *descendants(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        return seen

    def _last_step(self) -> int:
        try:
            lines = self._metrics.read_bytes().split(b"\n")[
                :-1
            ]  # what follows the last newline is not written yet
        except FileNotFoundError:
            return -1
        return int(json.loads(lines[-1])["step"]) if lines else -1


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on, in no particular order."""
    children: dict[int, list[int]] = defaultdict(list)
    for child, parent in _processes():
        children[parent].append(child)
    found, todo = [], [pid]
    while todo:
        below = children[todo.pop()]
        found += below
        todo += below
    return found


def _processes() -> Iterator[tuple[int, int]]:
    """(process, its parent), of every process. From /proc where there is one: small images have no `ps`."""
    if not Path("/proc/self/stat").exists():
        command = ["ps", "-A", "-o", "pid=,ppid="]
        for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
            child, parent = map(int, line.split())
            yield child, parent
        return
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since
            # PID (NAME) STATE PPID ..., and the name may hold anything, parentheses and spaces too
            yield int(file.parent.name), int(file.read_bytes().rpartition(b")")[2].split()[1])
