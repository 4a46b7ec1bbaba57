"""`tokenize`: sources and a tokenizer in, a published dataset out.

    discover ──> units ──> pool of workers ──> a record a unit ──> publish
                              │  shards, lineage, rejects: stored one by one
                              └─ journal: which units are done

A run may end at any instant. The next one with the same arguments believes the units whose files are still what their
records say, does the others, and publishes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.dataeng.cores import num_cores
from headrace.dataeng.sources.discover import Discovered
from headrace.dataeng.storage import Store
from headrace.manifests.dataset import MANIFEST, DatasetManifest
from headrace.tokenize.claim import only_job_in
from headrace.tokenize.complete import finished_dataset, require_all_units
from headrace.tokenize.config import Execution, TokenizeConfig
from headrace.tokenize.dedup.find import find_duplicates, told
from headrace.tokenize.estimate import Estimate, estimate_job
from headrace.tokenize.job import identity_for, read_job, units_of
from headrace.tokenize.journal import Journal, UnitRecord
from headrace.tokenize.passes import TaskOf, context_for, leaving_out, run_units, scan
from headrace.tokenize.publish import Job, publish
from headrace.tokenize.repair import Repaired, repair_version, version_of
from headrace.tokenize.tools import Context
from headrace.tokenize.units import Unit
from headrace.tokenize.worker import TokenizeUnit

_TOLD_DAMAGE = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What there is now: the dataset, whether it had been complete before, and files that were not data.

    notes: which tokenizer was at work where, if there is anything to say about it.
    """

    manifest: DatasetManifest
    already_complete: bool
    ignored: tuple[str, ...]
    notes: tuple[str, ...] = ()


def tokenize(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    onto: bool = False,
) -> Outcome:
    """Tokenizes `places` (files, directories, globs, URIs) with the file `tokenizer` into the dataset `out`.

    onto: `out` is a dataset, of which a new version is made that has these documents behind all others; its own
    tokenizer is used if None is given.

    Raises:
        UsageError, InputError: before any work.
        MismatchError: `out` holds another job; or, with `onto`, a dataset of another kind or with these sources in it.
        IncompleteError: another process is at work on `out`.
        DamageError: a source is damaged, and damage is not to be quarantined; or `out` is not what it was.
        BudgetError: nothing to publish, or too many rejects; finished units are kept.
        WorkerError: a worker died; finished units are kept.
    """
    return carry_out(*read_job(places, tokenizer, out, config, execution, onto), execution)


def carry_out(
    store: Store,
    job: Job,
    found: Discovered,
    execution: Execution,
    task: TaskOf = TokenizeUnit,
    *,
    by_shares: bool = False,
) -> Outcome:
    """Does the units that no earlier run has done, and publishes. Raises as `tokenize`.

    task: what is done to a unit; the record that it returns and stores is what is published. by_shares: all units have
    been done by shares, or it is too early (IncompleteError).
    """
    with only_job_in(store):
        # Shares may be at work on other machines, which a network file system's locks need not reach: as long as units
        # are missing, nothing is cleaned.
        if by_shares and finished_dataset(store, job, among_shares=True) is None:
            require_all_units(store, units_of(job))
        finished = finished_dataset(store, job)
        if finished is not None:
            return Outcome(manifest=finished, already_complete=True, ignored=found.ignored)
        return _publish(store, job, found, execution, task)


def estimate(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    onto: bool = False,
) -> Estimate:
    """What the job would give and how long it would take, from a sample of its slices. Writes nothing to `out`.

    Raises as `tokenize`, before any work; and what a slice of the sample raises.
    """
    _, job, found = read_job(places, tokenizer, out, config, execution, onto)
    units = units_of(job)
    text_bytes = sum(unit.text_bytes for unit in units)

    def context_of(scratch: Store) -> Context:
        return context_for(scratch, job, found.columns, execution, text_bytes)

    workers = min(execution.workers or num_cores(), num_cores(), max(1, len(units)))
    return estimate_job(job, context_of, units, workers)


def repair(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    onto: bool = False,
) -> Repaired:
    """Makes the damaged files of the version that this job published anew from the sources.

    Raises:
        InputError: there is no dataset, or its manifest cannot be read.
        DamageError: the sources give other bytes than were published; nothing was replaced.
        Otherwise as `tokenize`.
    """
    store, job, found = read_job(places, tokenizer, out, config, execution, onto)
    with only_job_in(store):
        identity = identity_for(job)
        version, job = version_of(store, job, identity)
        units = units_of(job)

        def redo(scratch: Store, some: Sequence[Unit]) -> list[UnitRecord]:
            task: TaskOf = TokenizeUnit
            if job.config.dedup:  # which documents repeat another, only all of them can tell
                scans = scan(scratch, job, found.columns, execution, units)
                decision = find_duplicates(scratch, units, job.sources, job.config.dedup, scans, job.parent)
                task = leaving_out(told(scans, decision))
            earlier = Journal(scratch).records()
            return run_units(scratch, job, found.columns, execution, some, task, earlier)[0]

        return repair_version(store, job, version, units, identity, redo)


def _publish(store: Store, job: Job, found: Discovered, execution: Execution, task: TaskOf) -> Outcome:
    units = units_of(job)
    try:
        if job.config.dedup:
            scans = scan(store, job, found.columns, execution, units)
            decision = find_duplicates(store, units, job.sources, job.config.dedup, scans, job.parent)
            task = leaving_out(told(scans, decision))
        earlier = Journal(store).records()
        records, notes = run_units(store, job, found.columns, execution, units, task, earlier)
        manifest = publish(store, job, records, execution.max_rejects)
    except FileNotFoundError:
        # On an object store nobody is locked out: the same command, started twice, has published and cleaned up.
        if not store.exists(MANIFEST) or (finished := finished_dataset(store, job)) is None:
            raise
        return Outcome(manifest=finished, already_complete=True, ignored=found.ignored)
    Journal(store).remove()
    return Outcome(
        manifest=manifest, already_complete=False, ignored=found.ignored, notes=(*_told(found.damage), *notes)
    )


def _told(damage: Sequence[str]) -> Iterator[str]:
    """What is quarantined, as far as anyone reads on."""
    yield from (f"quarantined: {problem}" for problem in damage[:_TOLD_DAMAGE])
    if len(damage) > _TOLD_DAMAGE:
        yield f"quarantined: {len(damage) - _TOLD_DAMAGE:,} more like these"
