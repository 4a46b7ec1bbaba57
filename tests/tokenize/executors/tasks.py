"""Tasks that need no tokenizer, for what executors do with any."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.dataeng.sources.base import Columns
from headrace.dataeng.storage import Store
from headrace.errors import DamageError
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.executors.base import Counts, Task
from headrace.tokenize.tools import Context, Tools
from headrace.tokenize.units import Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Gated(Task):
    """Reports once, then waits until the file `gate` is there."""

    gate: Path

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> str:
        report(Counts(rows=self.unit.index + 1))
        while not self.gate.exists():
            time.sleep(0.005)
        tools.note(f"note of {self.unit.index}")
        return f"result of {self.unit.index}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Broken(Task):
    """Raises what it is told to."""

    error: Exception

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> Any:
        raise self.error


@dataclass(frozen=True, kw_only=True, slots=True)
class Dying(Task):
    """Ends or stops its process the first `dies` times; a line in `attempts` each time."""

    attempts: Path
    dies: int
    stops: bool = False

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> int:
        with self.attempts.open("a") as file:
            file.write(f"{os.getpid()}\n")
        attempt = len(self.attempts.read_text().splitlines())
        if attempt <= self.dies:
            os.kill(os.getpid(), signal.SIGSTOP if self.stops else signal.SIGKILL)
        return attempt


def unit(index: int) -> Unit:
    return Unit(index=index, slices=())


def some_context(store: Path) -> Context:
    """Of a job that tokenizes nothing."""
    return Context(
        store=Store(store),
        tokenizer=b"",
        identity=TokenizerId(
            name="none",
            sha256="0" * 64,
            library="none",
            vocab_size=1,
            bos=None,
            bos_id=None,
            eos=None,
            eos_id=None,
            special_tokens="as-text",
        ),
        columns=Columns(text="text"),
        config=TokenizeConfig(),
        dtype="uint16",
        quarantine_damage=False,
    )


DAMAGE = DamageError("page 3 is damaged")
