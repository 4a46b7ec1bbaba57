"""A published dataset, opened: its manifest, its shard table, and the store it lies in."""

from __future__ import annotations

import os
from dataclasses import dataclass

from headrace.dataeng.storage import Store
from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, SHARDS, DatasetManifest, content_hash
from headrace.manifests.shard_table import ShardTable


@dataclass(frozen=True, slots=True)
class Dataset:
    store: Store
    manifest: DatasetManifest
    shards: ShardTable

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> Dataset:
        """Reads the head and the shard table and checks that they belong together; opens no shard.

        Raises:
            InputError: no manifest there, or not one that this version reads.
            DamageError: the shard table is not the one that the manifest was written for.
        """
        store = Store(uri)
        where = store.describe(MANIFEST)
        try:
            manifest = DatasetManifest.from_bytes(store.read(MANIFEST), where)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(
                f"{where} does not exist: the directory holds no dataset, or its tokenization has not finished; "
                "run the same `headrace tokenize` command again to finish it"
            ) from None
        table_name = store.describe(SHARDS)
        try:
            data = store.read(SHARDS)
        except FileNotFoundError:
            raise DamageError(f"{table_name} is missing; restore it, or tokenize again") from None
        if (found := sha256_hex(data)) != (expected := manifest.files[SHARDS].sha256):
            raise DamageError(
                f"{table_name}: SHA-256 {found[:16]}…, the manifest says {expected[:16]}…; the dataset cannot be "
                "trusted. Restore the file, or tokenize again"
            )
        shards = ShardTable.from_parquet(data, table_name)
        if shards.digest != manifest.shards_digest or shards.num_shards != manifest.counts.shards:
            raise DamageError(f"{table_name} holds other shards than the manifest says; restore it")
        if content_hash(manifest.tokenizer, manifest.dtype, shards) != manifest.content_hash:
            raise DamageError(
                f"{where}: content_hash does not follow from the shard table; restore both files"
            )
        return cls(store, manifest, shards)
