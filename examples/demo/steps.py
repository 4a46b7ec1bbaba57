"""What the demo prints: numbered steps, the time since the start, and a verdict on each claim."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Check:
    """A claim, and whether the files bear it out."""

    step: str
    claim: str
    holds: bool


@dataclass(slots=True)
class Steps:
    """Collects the checks; the demo succeeds if all of them hold."""

    total: int
    began: float = field(default_factory=time.monotonic)
    titles: list[tuple[str, float]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def begin(self, title: str) -> None:
        self.titles.append((title, self.elapsed))
        self.say(f"\n[{self.elapsed:5.1f} s] {len(self.titles)}/{self.total}  {title}")

    def say(self, line: str) -> None:
        print(line, flush=True)

    def check(self, claim: str, holds: bool) -> None:
        self.checks.append(Check(self.titles[-1][0], claim, holds))
        self.say(f"  {'ok    ' if holds else 'FAILED'}  {claim}")

    def run(self, command: Sequence[str | Path], *, shown_as: str | None = None) -> int:
        """Runs a command, shows its lines as they come, and returns its exit code."""
        words = [str(word) for word in command]
        self.say(f"  $ {shown_as or shlex.join(words)}")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.say(f"  | {line.rstrip()}")
        return process.returncode

    @property
    def succeeded(self) -> bool:
        return bool(self.checks) and all(check.holds for check in self.checks)
