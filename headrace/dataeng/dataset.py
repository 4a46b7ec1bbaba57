"""A published dataset, opened at one of its versions: the manifest, the shard table, and the store they lie in."""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.dataeng.storage import Store
from headrace.dataeng.versions import find_version, read_head, split_version
from headrace.errors import DamageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, SHARDS, DatasetManifest, content_hash
from headrace.manifests.shard_table import ShardTable


@dataclass(frozen=True, slots=True)
class Dataset:
    store: Store
    manifest: DatasetManifest
    shards: ShardTable
    is_newest: bool = True

    @classmethod
    def open(cls, uri: str | os.PathLike[str], *, version: str | None = None) -> Dataset:
        """Reads the head and the shard table and checks that they belong together; opens no shard.

        version: the first digits of an older version's hash or of its content hash; `uri@version` says the same.
        Without one the newest is opened.

        Raises:
            InputError: no manifest there, or not one that this version reads.
            MismatchError: no such version, or it was pruned.
            DamageError: the shard table is not the one that the manifest was written for.
        """
        uri, named = split_version(os.fspath(uri))
        store = Store(uri)
        head = read_head(store)
        wanted = version if version is not None else named
        manifest = head if wanted is None else find_version(store, head, wanted)
        where = store.describe(MANIFEST)
        table_name = store.describe(manifest.stored_name(SHARDS))
        shards = ShardTable.from_parquet(read_file(store, manifest, SHARDS), table_name)
        # The table's file hash was checked above and plans rely on content_hash; `verify` looks at shards_digest, for which
        # every column is read once more.
        if shards.num_shards != manifest.counts.shards:
            raise DamageError(f"{table_name} holds other shards than the manifest says; restore it")
        if content_hash(manifest.tokenizer, manifest.dtype, shards) != manifest.content_hash:
            raise DamageError(
                f"{where}: content_hash does not follow from the shard table; restore both files"
            )
        return cls(store, manifest, shards, manifest is head)

    def read(self, name: str) -> bytes:
        """This version's `shards.parquet`, `sources.parquet`, `rejects.parquet` or `tokenizer.json`, its hash checked.

        Raises:
            DamageError: it is missing or is not the file that was published.
        """
        return read_file(self.store, self.manifest, name)


def read_file(store: Store, manifest: DatasetManifest, name: str) -> bytes:
    """`Dataset.read`, where there is no shard table yet."""
    try:
        stored = manifest.stored_name(name)
    except KeyError:
        raise DamageError(
            f"{store.describe(MANIFEST)}: version {manifest.hash[:16]} lists no {name}"
        ) from None
    where = store.describe(stored)
    try:
        data = store.read(stored)
    except FileNotFoundError:
        raise DamageError(f"{where} is missing; restore it, or tokenize again") from None
    if (found := sha256_hex(data)) != (expected := manifest.files[stored].sha256):
        raise DamageError(
            f"{where}: SHA-256 {found[:16]}…, the manifest says {expected[:16]}…; the dataset cannot be "
            "trusted. Restore the file, or tokenize again"
        )
    return data
