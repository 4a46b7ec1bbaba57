"""`tokenize`: sources and a tokenizer in, a published dataset out.

    discover ──> units ──> pool of workers ──> a record a unit ──> publish
                              │  shards, lineage, rejects: stored one by one
                              └─ journal: which units are done

A run may end at any instant. The next one with the same arguments believes the units whose files are still what their
records say, does the others, and publishes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from headrace.dataeng.cores import num_cores
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import token_dtype
from headrace.dataeng.sources.base import Columns
from headrace.dataeng.sources.discover import Discovered, discover
from headrace.dataeng.sources.location import is_below, open_input
from headrace.dataeng.storage import Store, redact
from headrace.dataeng.versions import history, read_head, split_version
from headrace.errors import IncompleteError, MismatchError, UsageError
from headrace.manifests.dataset import MANIFEST, DatasetManifest
from headrace.tokenize.append import identity_of, made_by, open_newest, require_fitting
from headrace.tokenize.claim import ONTO, claim, claim_new, only_job_in
from headrace.tokenize.config import ALGORITHM_VERSION, Execution, Share, TokenizeConfig
from headrace.tokenize.dedup import signatures
from headrace.tokenize.dedup.config import DUPLICATE, NEAR_DUPLICATE
from headrace.tokenize.dedup.drops import Scanned
from headrace.tokenize.dedup.find import all_scans, decided, find_duplicates, told
from headrace.tokenize.dedup.journal import ScanJournal, ScanRecord
from headrace.tokenize.dedup.scan import ScanUnit
from headrace.tokenize.definition import to_definition
from headrace.tokenize.estimate import Estimate, estimate_job
from headrace.tokenize.executors.base import Done, Task
from headrace.tokenize.executors.choice import open_executor
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.filters.prepare import Prepared, prepare
from headrace.tokenize.heap import return_freed_memory
from headrace.tokenize.journal import Journal, UnitRecord, require_same_job
from headrace.tokenize.publish import TOKENIZER, Job, inputs_of, publish
from headrace.tokenize.repair import Repaired, repair_version, version_of
from headrace.tokenize.software import software
from headrace.tokenize.tidy import tidy_up
from headrace.tokenize.tokenizers import identify
from headrace.tokenize.tools import Context
from headrace.tokenize.tracker import Tracker
from headrace.tokenize.units import Unit, plan_units, read_by, unit_bytes
from headrace.tokenize.worker import TokenizeUnit

# Makes the task of a unit from `unit`, `sources` (the files it reads) and `earlier` (a record of it, or None).
TaskOf: TypeAlias = Callable[..., Task]

_TOLD_DAMAGE = 20
_MAX_SLICE_BYTES = 4 << 20
# Less text than this a thread is encoded by the reference before a fast backend is even loaded. More threads than a few wait
# for each other: the reference makes Python lists.
_MOST_THREADS = 8
_WORTH_LOADING_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareOutcome:
    """units: of this share, all done now. units_done, units_total: of the whole job, as far as is known here."""

    units: int
    units_done: int
    units_total: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanOutcome:
    """How many documents are left out, of the same text as an earlier one and of nearly the same."""

    duplicates: int
    near_duplicates: int


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
    return carry_out(*_read(places, tokenizer, out, config, execution, onto), execution)


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
        if by_shares and _finished(store, job, among_shares=True) is None:
            _require_all_units(store, _units(job))
        finished = _finished(store, job)
        if finished is not None:
            return Outcome(manifest=finished, already_complete=True, ignored=found.ignored)
        return _publish(store, job, found, execution, task)


def tokenize_share(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    share: Share,
    onto: bool = False,
) -> ShareOutcome:
    """Does the units of one share of the job and publishes nothing; shares may run at the same time, anywhere.

    Raises as `tokenize`.
    """
    return carry_out_share(*_read(places, tokenizer, out, config, execution, onto), execution, share)


def carry_out_share(
    store: Store,
    job: Job,
    found: Discovered,
    execution: Execution,
    share: Share,
    task: TaskOf = TokenizeUnit,
) -> ShareOutcome:
    """`carry_out` of one share: publishes nothing. Raises as `tokenize`."""
    with only_job_in(store, among_shares=True):
        units = _units(job)
        mine = [unit for unit in units if share.has(unit.index)]
        notes: tuple[str, ...] = ()
        done = len(units)
        if _finished(store, job, among_shares=True) is None:
            if job.config.dedup:
                task = _leaving_out(decided(store, units, job.parent))
            earlier = Journal(store).records()
            _, notes = _run_units(
                store, job, found.columns, execution, mine, task, earlier, among_shares=True
            )
            done = len(Journal(store).records())
    return ShareOutcome(units=len(mine), units_done=done, units_total=len(units), notes=notes)


def scan_share(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    share: Share,
    onto: bool = False,
) -> ShareOutcome:
    """Looks for duplicates: the part of it that each unit has for itself. Shares may run at the same time, anywhere.

    Raises as `tokenize`; UsageError if the job is not asked to leave out duplicates.
    """
    _require_dedup(config)
    store, job, found = _read(places, tokenizer, out, config, execution, onto)
    with only_job_in(store, among_shares=True):
        units = _units(job)
        mine = [unit for unit in units if share.has(unit.index)]
        done = len(units)
        if _finished(store, job, among_shares=True) is None:
            _scan(store, job, found.columns, execution, mine, among_shares=True)
            done = len(ScanJournal(store).records())
    return ShareOutcome(units=len(mine), units_done=done, units_total=len(units))


def finish_scan(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    onto: bool = False,
) -> ScanOutcome:
    """Decides what is a duplicate, once all shares are scanned.

    Raises:
        IncompleteError: a unit is not scanned; the message says which.
        Otherwise as `scan_share`.
    """
    _require_dedup(config)
    store, job, _ = _read(places, tokenizer, out, config, execution, onto)
    with only_job_in(store, among_shares=True):
        if (finished := _finished(store, job, among_shares=True)) is not None:
            rejects = finished.rejects
            return ScanOutcome(
                duplicates=rejects.get(DUPLICATE, 0), near_duplicates=rejects.get(NEAR_DUPLICATE, 0)
            )
        units = _units(job)
        drops = find_duplicates(
            store, units, job.sources, config.dedup, all_scans(store, units), job.parent
        ).drops.values()
    return ScanOutcome(
        duplicates=sum(each.duplicates for each in drops),
        near_duplicates=sum(each.near_duplicates for each in drops),
    )


def _require_dedup(config: TokenizeConfig) -> None:
    if not config.dedup:
        raise UsageError(
            "--scan looks for duplicates, and --dedup does not ask to leave any out; give --dedup exact or near"
        )


def finish_shares(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    *,
    onto: bool = False,
) -> Outcome:
    """Publishes what the shares did. A unit whose files have been damaged since is done again.

    Raises:
        IncompleteError: a unit is missing; the message says which.
        Otherwise as `tokenize`.
    """
    read = _read(places, tokenizer, out, config, execution, onto)
    return carry_out(*read, execution, by_shares=True)


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
    _, job, found = _read(places, tokenizer, out, config, execution, onto)
    units = _units(job)
    text_bytes = sum(unit.text_bytes for unit in units)

    def context_of(scratch: Store) -> Context:
        return _context(scratch, job, found.columns, execution, text_bytes)

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
    store, job, found = _read(places, tokenizer, out, config, execution, onto)
    with only_job_in(store):
        identity = _identity(job)
        version, job = version_of(store, job, identity)
        units = _units(job)

        def redo(scratch: Store, some: Sequence[Unit]) -> list[UnitRecord]:
            task: TaskOf = TokenizeUnit
            if job.config.dedup:  # which documents repeat another, only all of them can tell
                scans = _scan(scratch, job, found.columns, execution, units)
                decision = find_duplicates(scratch, units, job.sources, job.config.dedup, scans, job.parent)
                task = _leaving_out(told(scans, decision))
            earlier = Journal(scratch).records()
            return _run_units(scratch, job, found.columns, execution, some, task, earlier)[0]

        return repair_version(store, job, version, units, identity, redo)


def _publish(store: Store, job: Job, found: Discovered, execution: Execution, task: TaskOf) -> Outcome:
    units = _units(job)
    try:
        if job.config.dedup:
            scans = _scan(store, job, found.columns, execution, units)
            decision = find_duplicates(store, units, job.sources, job.config.dedup, scans, job.parent)
            task = _leaving_out(told(scans, decision))
        earlier = Journal(store).records()
        records, notes = _run_units(store, job, found.columns, execution, units, task, earlier)
        manifest = publish(store, job, records, execution.max_rejects)
    except FileNotFoundError:
        # On an object store nobody is locked out: the same command, started twice, has published and cleaned up.
        if not store.exists(MANIFEST) or (finished := _finished(store, job)) is None:
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


def _require_all_units(store: Store, units: Sequence[Unit]) -> None:
    done = Journal(store).records()
    missing = [unit.index for unit in units if unit.index not in done]
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise IncompleteError(
            f"{store.describe()}: {len(missing):,} of {len(units):,} units are not done ({shown}), so nothing is "
            "published. Unit u belongs to the share u modulo n of n: run those again with --shard-of, or run the "
            "command with neither --shard-of nor --finish to do what is left here"
        )


def _read(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    onto: bool,
) -> tuple[Store, Job, Discovered]:
    """Everything that is known before any work: where it goes, what it is, what is in the sources."""
    store = Store(out)
    for place in places:
        if is_below(out, place):
            raise UsageError(
                f"--out {store.describe()} lies in the source {redact(place)}: the next run would take its own shards for "
                "sources. Give a directory outside of it"
            )
    if store.is_local and store.local_root.exists() and not store.local_root.is_dir():
        raise UsageError(
            f"--out {store.describe()}: a file is there; give a directory, which need not exist yet"
        )
    if not onto and split_version(out)[1] is not None:
        raise UsageError(
            f"--out {store.describe()}: a name that ends like a version of another dataset; leave the @ out of it"
        )
    parent = open_newest(out) if onto else None
    tokenizer_bytes = _definition(tokenizer, config.tokenizer_recipe, parent)
    named = TOKENIZER if tokenizer is None else redact(tokenizer)
    identity = identify(tokenizer_bytes, named, bos=config.bos, eos=config.eos)
    return_freed_memory()  # this process will wait for others as long as the job takes
    found = discover(
        places,
        text_column=config.text_column,
        id_column=config.id_column,
        whole_files=config.documents == "files",
        raw_records=config.tfrecord_payload == "text",
        max_document_bytes=config.max_document_bytes,
        slice_bytes=min(_MAX_SLICE_BYTES, 2 * config.shard_bytes),
        allow_damage=execution.quarantine_damage,
    )
    filters = prepare(config.filters)
    job = Job(
        sources=found.sources,
        tokenizer=tokenizer_bytes,
        identity=identity,
        config=config,
        dtype=token_dtype(identity.vocab_size),
        filters=filters,
        resolved=_resolved(config, found, filters),
        inputs=inputs_of([[s.name, s.format, s.size, s.fingerprint] for s in found.sources]),
        software=software() | signatures.software(config.dedup),
        parent=parent,
    )
    return store, job, found


def _definition(tokenizer: str | None, recipe: str | None, parent: Dataset | None) -> bytes:
    if tokenizer is not None:
        return to_definition(
            _bytes_of(tokenizer),
            redact(tokenizer),
            recipe=None if recipe is None else (_bytes_of(recipe), redact(recipe)),
        )
    if parent is None:
        raise UsageError(
            "--tokenizer is missing: a tokenizer.json, a tiktoken rank file or a SentencePiece model"
        )
    if recipe is not None:
        raise UsageError("--tokenizer-recipe goes with --tokenizer; the dataset has a tokenizer of its own")
    return parent.read(TOKENIZER)


def _units(job: Job) -> list[Unit]:
    first = 0 if job.parent is None else job.parent.manifest.next_unit
    return plan_units(job.sources, job.resolved["unit_bytes"], first=first)


def _bytes_of(uri: str) -> bytes:
    with open_input(uri) as file:
        return file.read()


def _resolved(config: TokenizeConfig, found: Discovered, filters: Prepared) -> dict[str, Any]:
    described = filters.described()
    return {
        "algorithm": ALGORITHM_VERSION,
        "documents": config.documents,
        "text_column": found.columns.text or None,
        "id_column": found.columns.id,
        "tfrecord_payload": config.tfrecord_payload,
        "unit_bytes": unit_bytes(found.sources, config.shard_bytes),
        "max_document_bytes": config.max_document_bytes,
        **({"filters": described} if described else {}),
        **({"dedup": config.dedup.described()} if config.dedup else {}),
    }


def _identity(job: Job) -> dict[str, Any]:
    return {
        "tokenizer": asdict(job.identity),
        "dtype": job.dtype,
        "compression": job.config.compression,
        "shard_bytes": job.config.shard_bytes,
        "config": job.resolved,
        "inputs": job.inputs,
        "software": job.software,
    }


def _finished(store: Store, job: Job, *, among_shares: bool = False) -> DatasetManifest | None:
    """The dataset if this very job is complete here; else None, once the directory is fit for the job.

    among_shares: others may be writing, so that nothing is cleaned.
    """
    wanted, where = _identity(job), store.describe()
    if store.exists(MANIFEST):
        head = read_head(store)
        version = head
        for version in history(store, head):
            if made_by(version, wanted, job.kind):
                if version is head and not among_shares:
                    tidy_up(store)
                return version
        if job.parent is None:
            require_same_job(identity_of(version), wanted, where)
            raise MismatchError(
                f"{where} holds a dataset that was made by {version.change['kind']}; give another --out"
            )
        _begin_append(head, job, wanted)
        if not among_shares:
            store.clean_temporaries()
        return None
    claim_new(store, wanted, among_shares=among_shares)
    return None


def _begin_append(head: DatasetManifest, job: Job, identity: dict[str, Any]) -> None:
    assert job.parent is not None
    if head.hash == job.parent.manifest.hash:  # else `claim` says that it has changed
        require_fitting(job.parent, job)
    claim(job.parent, {**identity, ONTO: job.parent.manifest.hash})


def _scan(
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
    records, _ = _run_units(
        store, job, columns, execution, units, ScanUnit, earlier, among_shares=among_shares
    )
    return sorted(records, key=lambda scan: scan.unit)


def _leaving_out(scanned: Mapping[int, Scanned]) -> TaskOf:
    def task(*, unit: Unit, **given: Any) -> Task:
        return TokenizeUnit(unit=unit, scanned=scanned[unit.index], **given)

    return task


def _run_units(
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
    context = _context(store, job, columns, execution, text_bytes)
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


def _context(store: Store, job: Job, columns: Columns, execution: Execution, text_bytes: int) -> Context:
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
