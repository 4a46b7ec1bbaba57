"""What executors take and give: tasks, and reports of how far they are."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from headrace.dataeng.sources.base import SourceFile
from headrace.errors import HeadraceError, InputError, MissingExtra
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.tools import Tools
from headrace.tokenize.units import Unit


@dataclass(frozen=True, slots=True)
class Counts:
    """What an open unit has done so far."""

    rows: int = 0
    documents: int = 0
    rejected: int = 0
    tokens: int = 0
    text_bytes: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Task(ABC):
    """One pass over one unit, and the files it reads. It travels to another process: a subclass adds values only."""

    unit: Unit
    sources: dict[int, SourceFile]

    @abstractmethod
    def run(self, tools: Tools, report: Callable[[Counts], None]) -> Any:
        """Does it and returns the result, which travels back. May be run again, and by two processes at once."""

    def describe(self) -> str:
        """Its unit and its files, for a message."""
        names = [source.name for source in self.sources.values()]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more files" if len(names) > 3 else "")
        return f"unit {self.unit.index} ({shown})"


@dataclass(frozen=True, slots=True)
class Done:
    """What the task returned. `notes` are for people: which tokenizer was at work, and why. They are in no file."""

    result: Any
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A deliberate error (`kind` is its class), or with no kind a traceback."""

    kind: type[HeadraceError] | None
    message: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """What is told of an error in a worker: a message alone, which is how all but MissingExtra can be raised again."""
        if isinstance(error, HeadraceError):
            ours = (kind for kind in type(error).__mro__ if kind.__module__ == HeadraceError.__module__)
            return cls(next(kind for kind in ours if kind is not MissingExtra), str(error))
        if isinstance(error, OSError):  # no space, no permission: the system says it best
            return cls(InputError, str(error))
        return cls(None, "".join(traceback.format_exception(error)))

    def error(self, task: Task) -> HeadraceError:
        """The error to raise where the task was given out."""
        from headrace.errors import WorkerError

        if self.kind is None:
            return WorkerError(f"{task.describe()}: a worker failed:\n{self.message}")
        return self.kind(self.message)


Report = Counts | Done | Failed


class Executor(Protocol):
    """Does tasks somewhere. Leaving it as a context manager ends all it has started, whatever that was doing."""

    def run(self, tasks: Sequence[Task], stop: Stop) -> Iterator[tuple[int, Counts | Done]]:
        """Yields (unit, what was reported) until every task is done, in no order; after a `stop` until all open ones are.

        Raises:
            HeadraceError: what a task raised, as the same kind of error.
            WorkerError: a process died or is stuck; the message names the files it was reading.
        """
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
