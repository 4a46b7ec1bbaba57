"""Starts real jobs: torchrun, two processes, killed and signalled as a scheduler would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from headrace.manifests.ledger import LEDGER, Step, audit, read_ledger
from headrace.train.metrics import METRICS, read_metrics

# What a step says about time, or about which attempt took it; all else must be equal bit for bit.
OF_THE_MOMENT = ("attempt", "seconds", "tokens_per_second", "wait_seconds")


class Job:
    """A started job."""

    def __init__(self, config: Path, *overrides: str, ranks: int = 2) -> None:
        sets = [part for override in overrides for part in ("--set", override)]
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        }
        self._log = config.with_suffix(".log")
        self._output = open(self._log, "ab")  # noqa: SIM115 - closed by wait()
        self.process = subprocess.Popen(
            [sys.executable, *launcher, "-m", "headrace", "train", str(config), *sets],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={**environment, "OMP_NUM_THREADS": "1"},
        )

    def wait_for_steps(self, run: Path, steps: int, *, attempt: int = 1, timeout: float = 60) -> None:
        """Until the `attempt`th start of the run has taken `steps` steps."""
        deadline = time.monotonic() + timeout
        while steps_of(run, attempt) < steps:
            assert self.process.poll() is None, f"the job ended early:\n{self.said()}"
            assert time.monotonic() < deadline, f"{steps} steps never came:\n{self.said()}"
            time.sleep(0.01)

    def ranks(self) -> list[int]:
        """Process ids of the ranks. torchrun starts each in a session of its own: no group holds them all."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def signal_all(self, number: signal.Signals) -> None:
        """To the launcher and to every rank, as a scheduler signals all processes of a job."""
        for pid in (*self.ranks(), self.process.pid):
            os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL to all at once: a machine that lost its power."""
        ranks = self.ranks()
        assert ranks, "nothing would be killed but the launcher"
        self.signal_all(signal.SIGKILL)
        self.wait()
        while any(alive(pid) for pid in ranks):  # a killed process takes a moment to be taken down
            time.sleep(0.005)

    def wait(self, timeout: float = 90) -> int:
        code = self.process.wait(timeout)
        self._output.close()
        return code

    def finish(self) -> None:
        assert self.wait() == 0, self.said()

    def said(self) -> str:
        return self._log.read_text()


def alive(pid: int) -> bool:
    """Whether it still runs; one that has ended may stand in the table until its new parent looks."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def steps_of(run: Path, attempt: int) -> int:
    """Steps that an attempt has taken so far."""
    if not (run / LEDGER).exists():
        return 0
    return sum(isinstance(r, Step) and r.attempt == attempt for r in read_ledger(run / LEDGER))


def told(run: Path) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """What ledger and metrics of a run say, without what belongs to the moment; the audit must be clean."""
    records = read_ledger(run / LEDGER)
    report = audit(records)
    assert report.ok, report.problems
    steps = [(s.step, s.first_sample, s.end_sample, s.digest) for s in report.steps]
    assert all(isinstance(s, Step) for s in report.steps)
    lines = [
        {name: value for name, value in line.items() if name not in OF_THE_MOMENT}
        for line in read_metrics(run / METRICS).values()
    ]
    return steps, lines
