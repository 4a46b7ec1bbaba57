"""One pass over the units of a job, by whichever executor: what each task returns, and what the workers had to tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from headrace.dataeng.cores import num_cores
from headrace.dataeng.sources.base import Columns
from headrace.dataeng.storage import Store
from headrace.tokenize.config import Execution
from headrace.tokenize.dedup.drops import Scanned
from headrace.tokenize.dedup.journal import ScanJournal, ScanRecord
from headrace.tokenize.dedup.scan import ScanUnit
from headrace.tokenize.executors.base import Done, Task
from headrace.tokenize.executors.choice import open_executor
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.publish import Job
from headrace.tokenize.tools import Context
from headrace.tokenize.tracker import Tracker
from headrace.tokenize.units import Unit, read_by
from headrace.tokenize.worker import TokenizeUnit

# Makes the task of a unit from `unit`, `sources` (the files it reads) and `earlier` (a record of it, or None).
TaskOf: TypeAlias = Callable[..., Task]

# Less text than this a thread is encoded by the reference before a fast backend is even loaded. More threads than a few wait
# for each other: the reference makes Python lists.
_MOST_THREADS = 8
_WORTH_LOADING_BYTES = 4 << 20


def run_units(
    store: Store,
    job: Job,
    columns: Columns,
    execution: Execution,
    units: Sequence[Unit],
    task: TaskOf,
    earlier: Mapping[int, Any],
    *,
    among_shares: bool = False,
) -> tuple[list[Any], tuple[str, ...]]:
    """What each unit's task returns, and what the workers had to tell, each thing once. earlier: results by unit."""
    text_bytes = sum(unit.text_bytes for unit in units)
    tasks = [task(unit=u, sources=read_by(u, job.sources), earlier=earlier.get(u.index)) for u in units]
    context = context_for(store, job, columns, execution, text_bytes)
    only_encoded = None if task is ScanUnit or job.filters.described() else text_bytes
    tracker = Tracker(units, execution.on_progress, "scan" if task is ScanUnit else "tokenize")
    records: list[Any] = []
    notes: dict[str, None] = {}
    if not tasks:
        return records, ()
    try:
        with (
            Stop(execution.on_stop) as stop,
            open_executor(execution, context, len(tasks), only_encoded) as executor,
        ):
            for unit, report in executor.run(tasks, stop):
                if isinstance(report, Done):
                    records.append(report.result)
                    notes |= dict.fromkeys(report.notes)
                    tracker.done(report.result, resumed=report.result == earlier.get(unit))
                else:
                    tracker.open(unit, report)
        if stop.requested:
            raise KeyboardInterrupt
    finally:
        if store.is_local and not among_shares:  # an object store has none, and may be what failed
            store.clean_temporaries()  # the workers are gone, and what they were writing is nobody's
    return records, tuple(notes)


def scan(
    store: Store,
    job: Job,
    columns: Columns,
    execution: Execution,
    units: Sequence[Unit],
    *,
    among_shares: bool = False,
) -> list[ScanRecord]:
    """The first pass of a job that leaves out duplicates; the records in the order of the units."""
    earlier = ScanJournal(store).records()
    records, _ = run_units(
        store, job, columns, execution, units, ScanUnit, earlier, among_shares=among_shares
    )
    return sorted(records, key=lambda scan: scan.unit)


def leaving_out(scanned: Mapping[int, Scanned]) -> TaskOf:
    def task(*, unit: Unit, **given: Any) -> Task:
        return TokenizeUnit(unit=unit, scanned=scanned[unit.index], **given)

    return task


def context_for(store: Store, job: Job, columns: Columns, execution: Execution, text_bytes: int) -> Context:
    return Context(
        store=store,
        tokenizer=job.tokenizer,
        identity=job.identity,
        columns=columns,
        config=job.config,
        dtype=job.dtype,
        quarantine_damage=execution.quarantine_damage,
        filters=job.filters,
        fast_tokenizer=_wants_fast(text_bytes, execution),
        exact_check_full=execution.exact_check == "full",
    )


def _wants_fast(text_bytes: int, execution: Execution) -> bool:
    if execution.tokenizer_backend == "auto":
        return text_bytes >= _WORTH_LOADING_BYTES * min(num_cores(), _MOST_THREADS)
    return execution.tokenizer_backend == "fast"
