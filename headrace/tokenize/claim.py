"""One change of a dataset at a time: whoever's identity is in the journal may write new shards beside the old."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.dataeng.versions import archived, read_head
from headrace.errors import IncompleteError, MismatchError
from headrace.manifests.dataset import DatasetManifest
from headrace.tokenize.journal import Journal, differences, require_same_job
from headrace.tokenize.publish import sweep, units_of

ONTO = "onto"  # in a job's identity: the version that it changes


def claim(dataset: Dataset, identity: dict[str, Any]) -> None:
    """Begins or continues the job with this identity, which changes `dataset`, the newest version.

    Raises:
        MismatchError: another change is unfinished.
        IncompleteError: the dataset has just been changed.
    """
    store, head = dataset.store, dataset.manifest
    assert identity[ONTO] == head.hash
    journal = Journal(store)
    begun = journal.job()
    _require_newest(store, head)  # after the look at the journal: a job of a later version cannot be in it
    if begun is None:
        journal.begin(identity)
    elif begun.get(ONTO) != head.hash:
        # It was published, and its process was killed before it could tidy up.
        parent = None if head.parent is None else archived(store, head.parent)
        sweep(store, set(dataset.shards.names()), units_of(head, parent))
        journal.take_over(begun, identity)
    begun = journal.job() or identity  # another may have begun at the same moment
    if told := differences(begun, identity):
        raise MismatchError(
            f"{store.describe()}: another change of this dataset is unfinished; nothing was changed. It differs in\n{told}\n"
            "Run the command that began it to finish it, or give it up with `headrace versions --abandon`"
        )
    try:
        _require_newest(store, head)  # and from here on it stays so: who changes it has to be in the journal
    except IncompleteError:
        journal.remove()
        raise


def _require_newest(store: Store, head: DatasetManifest) -> None:
    if read_head(store).hash != head.hash:
        raise IncompleteError(
            f"{store.describe()}: another process has just changed this dataset; run the command again to begin from what is "
            "there now"
        )


def claim_new(store: Store, identity: dict[str, Any], *, among_shares: bool = False) -> None:
    """Begins or continues the job with this identity, which makes the first version here.

    among_shares: others may be writing, so that nothing is cleaned.

    Raises:
        MismatchError: another job was begun here, or something else is here.
    """
    journal, where = Journal(store), store.describe()
    begun = journal.job()
    others = [] if begun is not None else store.list()  # all of it: only where there is no job yet
    begun = begun or journal.job()  # after the list: whoever begins a job writes this file before any other
    if begun is not None:
        require_same_job(begun, identity, where)
    elif others:
        raise MismatchError(
            f"{where} is not empty ({others[0]}{', ...' if len(others) > 1 else ''}) and holds no tokenization; "
            "nothing was changed. Give a new directory with --out"
        )
    if not among_shares:
        store.clean_temporaries()
    if begun is None:
        journal.begin(identity)
        require_same_job(
            journal.job() or identity, identity, where
        )  # another may have begun at the same moment


@contextmanager
def only_job_in(store: Store, *, among_shares: bool = False) -> Iterator[None]:
    """Holds a local dataset directory for one process, or for any number of shares; the kernel lets go of it however
    a process ends.
    """
    if not store.is_local:
        yield
        return
    directory = store.local_root
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if among_shares else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IncompleteError(
                f"{store.describe()}: another process is tokenizing into this directory; wait for it to end"
                + ("" if among_shares else ", or, if it is a share, for all shares to end")
            ) from None
        yield
    finally:
        os.close(descriptor)
