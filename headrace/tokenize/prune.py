"""Which versions a dataset has, and how the bytes of old ones are erased.

A version's manifest is never removed: it holds no document, and the chain of parents runs through it. Everything else that only
pruned versions name goes, after a tombstone that says so: from then on nobody opens the version, whatever is still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.dataeng.dataset import read_file
from headrace.dataeng.storage import Store
from headrace.dataeng.threads import map_ahead
from headrace.dataeng.versions import find_version, history, read_head, split_version, tombstone
from headrace.errors import DamageError, MismatchError, UsageError
from headrace.manifests.canonical import pretty_json
from headrace.manifests.dataset import SHARDS, DatasetManifest, archived_manifest, plain_name
from headrace.manifests.names import unit_of
from headrace.manifests.shard_table import ShardTable
from headrace.tokenize.claim import ONTO, only_job_in
from headrace.tokenize.journal import Journal
from headrace.tokenize.publish import REJECTS, SOURCES
from headrace.tokenize.tidy import tidy_up

OLD: Final = "old"  # all but the newest
_THREADS: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """state: "newest", "kept", "pruned", or "being pruned" where a prune was interrupted."""

    manifest: DatasetManifest
    state: str


def versions(uri: str) -> list[Version]:
    """The newest first. Raises InputError if there is no dataset, DamageError if its history cannot be read."""
    store = _store(uri)
    head = read_head(store)
    return [Version(manifest=each, state=_state(store, head, each)) for each in history(store, head)]


def _state(store: Store, head: DatasetManifest, manifest: DatasetManifest) -> str:
    if manifest is head:
        return "newest"
    if not store.exists(tombstone(manifest.hash)):
        return "kept"
    return "being pruned" if store.exists(manifest.stored_name(SHARDS)) else "pruned"


def prune(uri: str, which: Sequence[str], *, rehearse: bool = False) -> list[str]:
    """Erases what only these versions (hashes, content hashes, or `OLD`) and pruned ones name; returns the names.

    An interrupted prune is finished by this one, whatever it is of.

    Raises:
        UsageError: the newest version, which a dataset cannot be without.
        MismatchError: no such version, or it was pruned before.
        DamageError: the shard table of a version that stays cannot be read: what it needs is not known.
    """
    store = _store(uri)
    if rehearse:
        return _prune(store, which, rehearse=True)
    with only_job_in(store):  # others may read, but what they write now would not be known here
        return _prune(store, which, rehearse=False)


def _prune(store: Store, which: Sequence[str], *, rehearse: bool) -> list[str]:
    head = read_head(store)
    chain = list(history(store, head))
    states = {each.hash: _state(store, head, each) for each in chain}
    chosen = {each.hash for each in chain if states[each.hash] == "being pruned"}
    for wanted in which:
        if wanted == OLD:
            chosen |= {each.hash for each in chain if states[each.hash] == "kept"}
            continue
        found = find_version(store, head, wanted).hash
        if found == head.hash:
            raise UsageError(
                f"{store.describe()}: {wanted} is the newest version, without which there is no dataset; make another "
                "version first (`headrace filter`, `headrace tokenize --onto`), or delete the directory"
            )
        chosen.add(found)
    kept = {name for each in chain if states[each.hash] in ("newest", "kept") and each.hash not in chosen
            for name in _names(store, each)}  # fmt: skip
    going = [each for each in chain if each.hash in chosen]
    tables = {name for each in going for name in each.files} - kept
    files = {name for each in going for name in _names(store, each)} - kept - tables
    if rehearse:
        return sorted(files | tables)
    for each in going:
        store.create(tombstone(each.hash), pretty_json({"version": each.hash}))
    # The tables last: from them a prune that was interrupted learns what is left to do.
    for _ in map_ahead(
        store.remove, sorted(files), threads=_THREADS, ahead=8 * _THREADS, name="headrace-prune"
    ):
        pass
    for each in going:
        shards = each.stored_name(SHARDS)
        for name in sorted(set(each.files) - kept, key=lambda name: name == shards):
            store.remove(name)
    return sorted(files | tables)


def _names(store: Store, manifest: DatasetManifest) -> set[str]:
    """Every file that the version names, but for manifests and `index.json`."""
    where = store.describe(manifest.stored_name(SHARDS))
    table = ShardTable.from_parquet(read_file(store, manifest, SHARDS), where)
    if table.digest != manifest.shards_digest:
        raise DamageError(f"{where} holds other shards than the manifest says; restore it")
    return {*table.names(), *manifest.files}


def abandon(uri: str) -> int:
    """Gives up the unfinished change of a dataset: what it has written so far is removed. Returns how many files.

    Raises:
        MismatchError: no change is unfinished, or it was published: then what is left to do behind it is done.
        IncompleteError: a process is at work on it.
    """
    store = _store(uri)
    with only_job_in(store):
        head = read_head(store)
        journal = Journal(store)
        begun = journal.job()
        if begun is not None and begun.get(ONTO) != head.hash:
            tidy_up(store)  # its process was killed just behind the publication
            raise MismatchError(
                f"{store.describe()}: the change was published, as version {head.hash[:16]}, so there is none to give up; what "
                "its process had not tidied is tidied now"
            )
        if begun is None and not journal.records():
            raise MismatchError(f"{store.describe()}: no change is unfinished, so there is none to give up")
        store.clean_temporaries()
        known = {name for each in history(store, head) for name in each.files}
        names = [
            name
            for name in store.list()
            if _is_orphan(name, head.next_unit, known) or name == archived_manifest(head.hash)
        ]
        for _ in map_ahead(
            store.remove, names, threads=_THREADS, ahead=8 * _THREADS, name="headrace-abandon"
        ):
            pass
        journal.remove()
        return len(names)


def _is_orphan(name: str, next_unit: int, known: set[str]) -> bool:
    """A shard or its lineage with a unit number that no version has used, or a table of a version that never came to be."""
    unit = unit_of(name)
    if unit is not None:
        return unit >= next_unit
    plain = plain_name(name)
    return plain != name and plain in (SHARDS, SOURCES, REJECTS) and name not in known


def _store(uri: str) -> Store:
    place, version = split_version(uri)
    if version is not None:
        raise UsageError(f"{uri}: names one version; give {place}")
    return Store(uri)
