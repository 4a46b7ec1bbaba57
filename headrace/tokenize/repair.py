"""Make the damaged files of a published dataset anew from its sources: the same bytes, or nothing is changed.

    verify ──> damaged units ──> done again in _repair/ ──> held to the recorded hashes ──> put in place, one by one
               damaged tables ──> all units done again ──┘

A file is replaced only by bytes that have the hash recorded for it, so a reader at any instant sees the damaged file or the
right one. `_repair/` has a journal of its own: a repair that was killed goes on where it was, and the next command of any kind
removes what is left of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import INDEX
from headrace.dataeng.storage import Store
from headrace.dataeng.versions import archived, history, read_head
from headrace.errors import DamageError, MismatchError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, SHARDS, DatasetManifest, plain_name
from headrace.manifests.names import unit_of
from headrace.tokenize.append import identity_of, made_by
from headrace.tokenize.head import write_index
from headrace.tokenize.journal import Journal, StoredFile, UnitRecord, files_of, require_same_job
from headrace.tokenize.publish import REJECTS, SOURCES, TOKENIZER, Job, assemble, units_of
from headrace.tokenize.units import Unit
from headrace.tokenize.verify import verify

SCRATCH: Final = "_repair"
_SHOWN: Final = 5

Redo = Callable[[Store, Sequence[Unit]], list[UnitRecord]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Repaired:
    """manifest: of the version that was repaired. files: made anew. left: damaged still, since other commands made them."""

    manifest: DatasetManifest
    files: tuple[str, ...]
    left: tuple[str, ...]
    units: int  # that were done again


def version_of(store: Store, job: Job, identity: dict[str, Any]) -> tuple[DatasetManifest, Job]:
    """The version that this job published, and the job with the parent which that version has.

    Raises:
        InputError: there is no dataset.
        MismatchError: no version was made by this job.
    """
    head = read_head(store)
    version = head
    for version in history(store, head):
        if made_by(version, identity, job.kind):
            if version.parent is None:
                return version, job
            return version, replace(job, parent=Dataset.open(store.uri, version=version.parent))
    require_same_job(identity_of(version), identity, store.describe())
    raise MismatchError(
        f"{store.describe()}: no version of this dataset was made by this command; give the one that made it"
    )


def repair_version(
    store: Store,
    job: Job,
    version: DatasetManifest,
    units: Sequence[Unit],
    identity: dict[str, Any],
    redo: Redo,
) -> Repaired:
    """Verifies `version` and makes anew what is damaged of it.

    units: of the job. redo: does units in the store that it is given, and returns their records.

    Raises:
        DamageError: the sources give other bytes than were published; nothing was changed.
    """
    try:
        repaired = _repair(store, _scratch(store, identity), job, version, units, redo)
    except _OtherBytesError:
        remove_scratch(store)  # or the next attempt would believe in them, with the sources put back
        raise
    remove_scratch(store)
    return repaired


def _repair(
    store: Store, scratch: Store, job: Job, version: DatasetManifest, units: Sequence[Unit], redo: Redo
) -> Repaired:
    mended: list[str] = []
    redone: dict[int, UnitRecord] = {}

    def records_of(wanted: Iterable[int]) -> list[UnitRecord]:
        numbers = set(wanted)
        missing = [unit for unit in units if unit.index in numbers - redone.keys()]
        if missing:
            redone.update({record.unit: record for record in redo(scratch, missing)})
        return [redone[number] for number in sorted(numbers)]

    damaged = _damaged(store, version)
    if damaged is None or {plain_name(name) for name in damaged} & {SHARDS, SOURCES, REJECTS}:
        again = assemble(scratch, job, records_of(unit.index for unit in units), 1.0)
        if again.manifest.hash != version.hash:
            raise _other(store, "the tables")
        for name in (SHARDS, SOURCES, REJECTS):
            mended += _put(store, version, name, again.contents[name])
        damaged = _damaged(store, version)
        assert damaged is not None, "the shard table has the recorded hash now"
    if any(plain_name(name) == TOKENIZER for name in damaged):
        mended += _put(store, version, TOKENIZER, job.tokenizer)
    dataset = Dataset.open(store.uri, version=version.hash)
    if INDEX in damaged:
        write_index(store, version, dataset.shards)
        mended.append(INDEX)
    parent = None if version.parent is None else archived(store, version.parent)
    ours = {
        name for name in damaged if (unit := unit_of(name)) is not None and unit in units_of(version, parent)
    }
    made = {file.name: file for record in records_of(_units(ours)) for file in files_of(record)}
    recorded = _recorded(dataset)
    for name in sorted(ours):  # all of them are looked at before any is replaced
        if name not in made or made[name].sha256 != recorded[name]:
            raise _other(store, name)
    for name in sorted(ours):
        mended += _copy(scratch, store, made[name])
    files = tuple(dict.fromkeys(mended))
    left = tuple(sorted(damaged - set(files)))
    return Repaired(manifest=version, files=files, left=left, units=len(redone))


def _units(names: Iterable[str]) -> set[int]:
    return {unit for name in names if (unit := unit_of(name)) is not None}


def _damaged(store: Store, version: DatasetManifest) -> set[str] | None:
    """Names of the files that are not as published; None if not even the shard table is."""
    try:
        report = verify(f"{store.uri}@{version.hash}", name_documents=False)
    except DamageError:
        return None
    return {problem.file for problem in report.problems}


def _recorded(dataset: Dataset) -> dict[str, str]:
    """SHA-256 of every stored shard and lineage file."""
    found = {}
    for row in dataset.shards.rows():
        found[row.name], found[row.lineage] = row.stored_sha256, row.lineage_sha256
    return found


def _put(store: Store, version: DatasetManifest, name: str, data: bytes) -> list[str]:
    """Stores a table of the version where it differs. Raises DamageError if it is not the one that was published."""
    stored = version.stored_name(name)
    if sha256_hex(data) != version.files[stored].sha256:
        raise _other(store, stored)
    try:
        if store.read(stored) == data:
            return []
    except FileNotFoundError:
        pass
    store.write(stored, data)
    return [stored]


def _copy(scratch: Store, store: Store, file: StoredFile) -> list[str]:
    data = scratch.read(file.name)
    if sha256_hex(data) != file.sha256:
        raise DamageError(
            f"{scratch.describe(file.name)}: damaged again as soon as it was written; look at the disk or the store"
        )
    store.write(file.name, data)
    return [file.name]


class _OtherBytesError(DamageError):
    """The sources give something else than what was published."""


def _other(store: Store, what: str) -> _OtherBytesError:
    return _OtherBytesError(
        f"{store.describe()}: made again from the sources, {what} would be other bytes than were published, so nothing was "
        "replaced. A source was changed in a way that its fingerprint does not show (docs/formats/dataset.md says what it "
        "covers): put the sources back as they were, or restore the dataset from a copy"
    )


def _scratch(store: Store, identity: dict[str, Any]) -> Store:
    """Where units are done again, by this job alone."""
    scratch = Store(f"{store.uri}/{SCRATCH}")
    if (begun := Journal(scratch).job()) is not None and begun != identity:
        remove_scratch(store)
        begun = None
    if begun is None:
        Journal(scratch).begin(identity)
    return scratch


def remove_scratch(store: Store) -> None:
    """What a repair leaves, finished or not."""
    if store.is_local:
        shutil.rmtree(store.local_root / SCRATCH, ignore_errors=True)
        return
    for name in store.list(SCRATCH):
        store.remove(name)


def require_files(store: Store, dataset: Dataset) -> None:
    """Whether every file of the dataset is there with the size that it should have, by one listing.

    Raises DamageError naming the first that are not.
    """
    found = store.sizes()
    expected: dict[str, int | None] = {name: entry.bytes for name, entry in dataset.manifest.files.items()}
    names, stored = dataset.shards.names(), dataset.shards.column("stored_bytes").tolist()
    expected |= dict.fromkeys(names)  # nothing says how large lineage is
    expected |= dict(zip(names, stored, strict=False))
    wrong = [
        f"{name} is not there"
        if name not in found
        else f"{name} has {found[name]:,} bytes, {size or 1:,} were written"
        for name, size in sorted(expected.items())
        if name not in found or (found[name] != size if size is not None else not found[name])
    ]
    if wrong:
        raise DamageError(
            f"{store.describe()}: {MANIFEST} is there, but {len(wrong):,} of its files are not as they were written:\n  "
            + "\n  ".join(wrong[:_SHOWN])
            + ("\n  ..." if len(wrong) > _SHOWN else "")
            + "\nRestore them from a copy; or, if the command was `headrace tokenize`, add --repair to the command, which makes them "
            "anew from the sources, the same bytes"
        )
