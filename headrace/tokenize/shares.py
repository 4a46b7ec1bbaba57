"""A job in shares: each does some of the units, on any machine that sees the output, and one of them publishes at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.dataeng.sources.discover import Discovered
from headrace.dataeng.storage import Store
from headrace.errors import UsageError
from headrace.tokenize.claim import only_job_in
from headrace.tokenize.complete import finished_dataset
from headrace.tokenize.config import Execution, Share, TokenizeConfig
from headrace.tokenize.dedup.config import DUPLICATE, NEAR_DUPLICATE
from headrace.tokenize.dedup.find import all_scans, decided, find_duplicates
from headrace.tokenize.dedup.journal import ScanJournal
from headrace.tokenize.job import read_job, units_of
from headrace.tokenize.journal import Journal
from headrace.tokenize.passes import TaskOf, leaving_out, run_units, scan
from headrace.tokenize.pipeline import Outcome, carry_out
from headrace.tokenize.publish import Job
from headrace.tokenize.worker import TokenizeUnit


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
    return carry_out_share(*read_job(places, tokenizer, out, config, execution, onto), execution, share)


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
        units = units_of(job)
        mine = [unit for unit in units if share.has(unit.index)]
        notes: tuple[str, ...] = ()
        done = len(units)
        if finished_dataset(store, job, among_shares=True) is None:
            if job.config.dedup:
                task = leaving_out(decided(store, units, job.parent))
            earlier = Journal(store).records()
            _, notes = run_units(store, job, found.columns, execution, mine, task, earlier, among_shares=True)
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
    store, job, found = read_job(places, tokenizer, out, config, execution, onto)
    with only_job_in(store, among_shares=True):
        units = units_of(job)
        mine = [unit for unit in units if share.has(unit.index)]
        done = len(units)
        if finished_dataset(store, job, among_shares=True) is None:
            scan(store, job, found.columns, execution, mine, among_shares=True)
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
    store, job, _ = read_job(places, tokenizer, out, config, execution, onto)
    with only_job_in(store, among_shares=True):
        if (finished := finished_dataset(store, job, among_shares=True)) is not None:
            rejects = finished.rejects
            return ScanOutcome(
                duplicates=rejects.get(DUPLICATE, 0), near_duplicates=rejects.get(NEAR_DUPLICATE, 0)
            )
        units = units_of(job)
        drops = find_duplicates(
            store, units, job.sources, config.dedup, all_scans(store, units), job.parent
        ).drops.values()
    return ScanOutcome(
        duplicates=sum(each.duplicates for each in drops),
        near_duplicates=sum(each.near_duplicates for each in drops),
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
    read = read_job(places, tokenizer, out, config, execution, onto)
    return carry_out(*read, execution, by_shares=True)


def _require_dedup(config: TokenizeConfig) -> None:
    if not config.dedup:
        raise UsageError(
            "--scan looks for duplicates, and --dedup does not ask to leave any out; give --dedup exact or near"
        )
