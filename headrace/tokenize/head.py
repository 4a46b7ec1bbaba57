"""Make a version the newest of its dataset: tables, the archived parent, then the head in one step, then `index.json`."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.dataeng.mds import INDEX, IndexEntry, encode_index
from headrace.dataeng.storage import Store
from headrace.errors import DamageError, MismatchError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import (
    MANIFEST,
    DatasetManifest,
    FileEntry,
    archived_manifest,
    named_by_hash,
)
from headrace.manifests.shard_table import ShardTable


def name_files(
    contents: Mapping[str, bytes], parent: DatasetManifest | None
) -> tuple[dict[str, bytes], dict[str, FileEntry]]:
    """What a version stores (by stored name) and what its manifest says of all its files.

    A file that the parent has with the same bytes is shared; any other takes its hash into its name, so that nothing of
    the parent is written over.
    """
    stored: dict[str, bytes] = {}
    entries: dict[str, FileEntry] = {}
    for plain, data in contents.items():
        entry = FileEntry(bytes=len(data), sha256=sha256_hex(data))
        name = plain
        if parent is not None:
            shared = parent.stored_name(plain)
            if parent.files[shared] == entry:
                entries[shared] = entry
                continue
            name = named_by_hash(plain, entry.sha256)
        stored[name], entries[name] = data, entry
    return stored, entries


def make_newest(
    store: Store,
    manifest: DatasetManifest,
    table: ShardTable,
    stored: Mapping[str, bytes],
    parent: DatasetManifest | None,
) -> None:
    """Publishes. All shards and lineage of `table` are stored already.

    Raises:
        DamageError: what lies where the parent's manifest is to be kept is something else; nothing was published.
        MismatchError: another version has become the newest since `parent` was; nothing was published.
    """
    for name, data in stored.items():
        store.write(name, data)
    head = manifest.to_bytes()
    if parent is None:
        store.write(INDEX, index_file(manifest, table))
        store.write(MANIFEST, head)
        return
    if not store.create(archived_manifest(parent.hash), parent.to_bytes()):
        raise DamageError(
            f"{store.describe(archived_manifest(parent.hash))}: is not the manifest whose hash is in its name. Nothing was "
            "published; restore or remove it, and run the command again"
        )
    if not store.replace(MANIFEST, head, expected=parent.to_bytes()) and store.read(MANIFEST) != head:
        raise MismatchError(
            f"{store.describe(MANIFEST)}: the dataset is no longer at version {parent.hash[:16]}, from which this change "
            "began: another process has changed it. Nothing was published; run the command again to begin from what is "
            "there now"
        )
    write_index(store, manifest, table)


def write_index(store: Store, manifest: DatasetManifest, table: ShardTable) -> None:
    """Brings `index.json` up to the newest version, where it is not."""
    wanted = index_file(manifest, table)
    if (not store.exists(INDEX) or store.read(INDEX) != wanted) and store.read(
        MANIFEST
    ) == manifest.to_bytes():
        store.write(INDEX, wanted)


def index_file(manifest: DatasetManifest, table: ShardTable) -> bytes:
    """`index.json`: the shard table as mosaicml-streaming reads it."""
    zipped = manifest.compression != "none"
    entries = [
        IndexEntry(
            name=row.name.removesuffix(".zstd"),
            raw_bytes=row.raw_bytes,
            raw_sha256=row.raw_sha256,
            documents=row.documents,
            stored=(row.name, row.stored_bytes, row.stored_sha256) if zipped else None,
        )
        for row in table.rows()
    ]
    return encode_index(
        entries, dtype=manifest.dtype, shard_bytes=manifest.shard_bytes, compression=manifest.compression
    )
