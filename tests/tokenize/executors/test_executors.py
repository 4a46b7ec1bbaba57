"""What every executor does, whatever the tasks are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DamageError, InputError, UsageError, WorkerError
from headrace.tokenize.config import Execution
from headrace.tokenize.executors.base import Counts, Done, Executor
from headrace.tokenize.executors.choice import open_executor
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.journal import Journal
from tests.tokenize.executors.tasks import Broken, Gated, some_context, unit

Open = Callable[..., Executor]


@pytest.fixture(params=["local", "ray"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens an executor with up to two workers for a job that has begun."""
    context = some_context(tmp_path / "out")
    Journal(context.store).begin({"job": "of a test"})
    address = request.getfixturevalue("ray_cluster").address if request.param == "ray" else None

    def open_it(num_tasks: int, workers: int | None = 2) -> Executor:
        return open_executor(
            Execution(executor=request.param, address=address, workers=workers), context, num_tasks
        )

    return open_it


def done(reports: list[tuple[int, Counts | Done]]) -> dict[int, Done]:
    found = [(number, report) for number, report in reports if isinstance(report, Done)]
    assert len(dict(found)) == len(found), "a unit was reported twice"
    return dict(found)


@pytest.mark.parametrize("workers", [1, 2, None])
def test_every_task_is_done_once_and_its_notes_arrive(
    opened: Open, tmp_path: Path, workers: int | None
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    tasks = [Gated(unit=unit(n), sources={}, gate=gate) for n in range(5)]
    with opened(5, workers) as executor:
        results = done(list(executor.run(tasks, Stop())))
    assert results == {n: Done(f"result of {n}", (f"note of {n}",)) for n in range(5)}


def test_open_units_are_reported_and_a_stop_finishes_them_and_begins_no_other(
    opened: Open, tmp_path: Path
) -> None:
    gate, told = tmp_path / "gate", list[int]()
    tasks = [Gated(unit=unit(n), sources={}, gate=gate) for n in range(6)]
    reports: list[tuple[int, Counts | Done]] = []
    with opened(6) as executor, Stop(told.append) as stop:
        for number, report in executor.run(tasks, stop):
            reports.append((number, report))
            if {n for n, counts in reports if counts == Counts(rows=n + 1)} == {0, 1}:
                stop.request()
                gate.touch()
    assert sorted(done(reports)) == [0, 1]
    assert told in ([1], [2]), "the gate was open when it was told, so one may have been done"


def test_a_stop_before_the_first_task_begins_none(opened: Open, tmp_path: Path) -> None:
    with opened(1) as executor, Stop() as stop:
        stop.request()
        assert not list(executor.run([Gated(unit=unit(0), sources={}, gate=tmp_path)], stop))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (DamageError("page 3 is damaged"), DamageError, r"^page 3 is damaged$"),
        (FileNotFoundError(2, "No such file", "a.parquet"), InputError, "No such file.*a.parquet"),
        (ZeroDivisionError("never"), WorkerError, r"(?s)unit 7 .*Traceback.*ZeroDivisionError: never"),
    ],
)
def test_what_a_task_raises_is_raised_here_as_its_own_kind(
    opened: Open, error: Exception, kind: type[Exception], words: str
) -> None:
    with opened(1) as executor, pytest.raises(kind, match=words) as raised:
        list(executor.run([Broken(unit=unit(7), sources={}, error=error)], Stop()))
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "slurm"}, "expected local or ray"),
        ({"address": "head:6379"}, "goes with --executor ray"),
        ({"workers": 0}, "expected 1 or more"),
    ],
)
def test_a_choice_that_is_none_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Execution(**options)
