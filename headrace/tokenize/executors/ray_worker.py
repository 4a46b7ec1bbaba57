"""The process behind `ray`: an actor on some core of the cluster, with one task at a time.

It has two threads: one does the task, the other tells how far it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.errors import InputError, MismatchError, UsageError
from headrace.tokenize.executors.base import Counts, Done, Failed, Task
from headrace.tokenize.executors.watch import Watch
from headrace.tokenize.journal import Journal
from headrace.tokenize.software import software
from headrace.tokenize.tools import Context, Tools

LOOK_SECONDS: Final = 30.0
# What Ray's own threads use is not work: measured 1 % of a core.
_BACKGROUND: Final = 0.05


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has what it needs."""

    node: str


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a task is, and how many looks on end its process has done nothing."""

    counts: Counts
    idle_looks: int


class RayWorker:
    """Methods return their errors: Ray would wrap what they raise, and print its traceback on other machines."""

    def __init__(self) -> None:
        import ray

        runtime: Any = ray
        self._node = runtime.util.get_node_ip_address()
        self._tools: Tools | None = None
        self._watch = Watch(os.getpid(), background=_BACKGROUND * LOOK_SECONDS)
        self._counts = Counts()
        self._looked = 0.0

    def prepare(
        self, context: Context, job: dict[str, Any] | None, versions: dict[str, str], visible_seconds: float
    ) -> Ready | Failed:
        """Takes the context, once it is sure that this node sees the same store and has the same software.

        job: what the journal must hold, as the driver sees it; after `visible_seconds` at the latest, because a network
        file system may know for a while what was there before.
        """
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a core each is what the job was given
        try:
            _require_same(versions, software())
            deadline = time.monotonic() + visible_seconds
            while Journal(context.store).job() != job:
                if time.monotonic() < deadline:
                    time.sleep(1.0)
                    continue
                raise UsageError(
                    f"it does not see the job that was begun in {context.store.describe()}. Every node must reach --out "
                    "and the sources under the same names: give an object store or a shared file system"
                )
            self._tools = Tools(context)
        except Exception as error:  # noqa: BLE001 every failure is told to the driver
            return self._located(Failed.of(error))
        return Ready(self._node)

    def run(self, task: Task) -> Done | Failed:
        assert self._tools is not None  # it was prepared
        self._counts = Counts()
        self._heard()
        try:
            return Done(task.run(self._tools, self._report), self._tools.take_notes())
        except Exception as error:  # noqa: BLE001 every failure is told to the driver
            failed = Failed.of(error)
            # A file that cannot be read here may well be there elsewhere.
            return self._located(failed) if failed.kind is InputError else failed

    def look(self) -> Seen:
        """To be called while `run` is at work; it takes a look every LOOK_SECONDS at most."""
        if (now := time.monotonic()) - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._watch.look()
        return Seen(self._counts, self._watch.idle_looks)

    def _report(self, counts: Counts) -> None:
        self._counts = counts
        self._heard()

    def _heard(self) -> None:
        self._looked = time.monotonic()
        self._watch.reported()

    def _located(self, failed: Failed) -> Failed:
        return replace(failed, message=f"node {self._node}: {failed.message}")


def _require_same(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raises MismatchError naming every package whose version differs."""
    differences = [
        f"{name} {found.get(name, 'none')} instead of {wanted.get(name, 'none')}"
        for name in sorted({*wanted, *found})
        if found.get(name) != wanted.get(name)
    ]
    if differences:
        raise MismatchError(
            f"it has {', '.join(differences)}, which may give other bytes; install the same versions on every node"
        )
