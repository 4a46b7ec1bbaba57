"""What is left to do behind a published version, by whoever finds that its process was killed there."""

from __future__ import annotations

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.dataeng.versions import archived
from headrace.manifests.dataset import DatasetManifest
from headrace.tokenize.claim import ONTO
from headrace.tokenize.head import write_index
from headrace.tokenize.journal import Journal
from headrace.tokenize.publish import sweep, units_of
from headrace.tokenize.repair import remove_scratch, require_files


def settle(store: Store, version: DatasetManifest, *, is_newest: bool) -> None:
    """To be called where a command finds that `version` is what it published before, and is about to say so.

    Raises:
        DamageError: files of the version are gone or short.
        MismatchError: it was pruned since.
    """
    if is_newest:
        tidy_up(store)
    else:
        require_files(store, Dataset.open(f"{store.uri}/", version=version.hash))


def tidy_up(store: Store) -> None:
    """Completes the newest version's publication: `index.json`, attempts that were given up, the journal.

    Raises DamageError if files of the version are gone or short.
    """
    dataset = Dataset.open(f"{store.uri}/")
    manifest, expected = dataset.manifest, {*dataset.shards.names(), *dataset.manifest.files}
    require_files(store, dataset)
    remove_scratch(store)
    write_index(store, manifest, dataset.shards)
    # First: it takes temporaries out of the journal's directory.
    parent = None if manifest.parent is None else archived(store, manifest.parent)
    sweep(store, expected, units_of(manifest, parent))
    journal = Journal(store)
    begun = journal.job()
    if begun is None or begun.get(ONTO) != manifest.hash:  # a change that has begun since goes on
        journal.remove()
