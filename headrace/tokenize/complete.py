"""What there already is where a job writes: the finished dataset, the same job unfinished, or something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.dataeng.storage import Store
from headrace.dataeng.versions import history, read_head
from headrace.errors import IncompleteError, MismatchError
from headrace.manifests.dataset import MANIFEST, DatasetManifest
from headrace.tokenize.append import identity_of, made_by, require_fitting
from headrace.tokenize.claim import ONTO, claim, claim_new
from headrace.tokenize.job import identity_for
from headrace.tokenize.journal import Journal, require_same_job
from headrace.tokenize.publish import Job
from headrace.tokenize.tidy import settle
from headrace.tokenize.units import Unit


def finished_dataset(store: Store, job: Job, *, among_shares: bool = False) -> DatasetManifest | None:
    """The dataset if this very job is complete here; else None, once the directory is fit for the job.

    among_shares: others may be writing, so that nothing is cleaned.

    Raises:
        MismatchError: something else is here, or the version that the job published was pruned since.
        DamageError: files of that version are gone or short.
        IncompleteError: as `claim`.
    """
    wanted, where = identity_for(job), store.describe()
    if store.exists(MANIFEST):
        head = read_head(store)
        version = head
        for version in history(store, head):
            if made_by(version, wanted, job.kind):
                if not among_shares:
                    settle(store, version, is_newest=version is head)
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


def require_all_units(store: Store, units: Sequence[Unit]) -> None:
    done = Journal(store).records()
    missing = [unit.index for unit in units if unit.index not in done]
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise IncompleteError(
            f"{store.describe()}: {len(missing):,} of {len(units):,} units are not done ({shown}), so nothing is "
            "published. Unit u belongs to the share u modulo n of n: run those again with --shard-of, or run the "
            "command with neither --shard-of nor --finish to do what is left here"
        )
