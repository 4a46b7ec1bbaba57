"""Write a shard anew without some of its documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import LineageWriter, as_rejects, encode_table, read_lineage
from headrace.dataeng.mds import keep_samples
from headrace.errors import DamageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.filters.reasons import TAKEN_DOWN
from headrace.tokenize.journal import SourceCounts, StoredFile, UnitRecord, rejects_name
from headrace.tokenize.shard_check import differs, unpack
from headrace.tokenize.shard_writer import compress


def checked_lineage(dataset: Dataset, row: ShardRow, columns: list[str] | None = None) -> Any:
    """The lineage of a shard, or some columns of it, held to the shard table. Raises DamageError."""
    where = dataset.store.describe(row.lineage)
    try:
        data = dataset.store.read(row.lineage)
    except FileNotFoundError:
        raise DamageError(f"{where} is missing; restore it, without it no document can be named") from None
    if (found := sha256_hex(data)) != row.lineage_sha256:
        raise DamageError(
            f"{where}: SHA-256 {found[:16]}…, the shard table says {row.lineage_sha256[:16]}…; restore it"
        )
    table = read_lineage(data, where, columns)
    if len(table) != row.documents:
        raise DamageError(f"{where}: {len(table):,} rows for {row.documents:,} documents; restore it")
    return table


def _raw_shard(dataset: Dataset, row: ShardRow) -> memoryview:
    where = dataset.store.describe(row.name)
    try:
        stored = dataset.store.read(row.name)
    except FileNotFoundError:
        raise DamageError(f"{where} is missing; restore it") from None
    problem = differs(stored, row.stored_bytes, row.stored_sha256)
    raw = memoryview(stored)
    if problem is None and row.name.endswith(".zstd"):
        raw, problem = unpack(stored, memoryview(bytearray(row.raw_bytes)))
        problem = problem or differs(bytes(raw), row.raw_bytes, row.raw_sha256)
    if problem is not None:
        raise DamageError(f"{where}: {problem}. It is not written anew from damaged bytes; restore it")
    return raw


def without(
    dataset: Dataset,
    row: ShardRow,
    unit: int,
    dropped_of: Callable[[Any], Any],
    numbers: Mapping[str, int],
) -> UnitRecord:
    """Stores the shard as unit `unit`, its lineage and its rejects, without the documents that `dropped_of` its lineage says.

    Args:
        dropped_of: a lineage table to a BooleanArray [documents], at least one of them true.
        numbers: of each source, its position among the dataset's sources. In the record's counts it is what went.

    Raises DamageError if the shard or its lineage is not what was published.
    """
    store = dataset.store
    lineage = checked_lineage(dataset, row)
    dropped = dropped_of(lineage)
    going, staying = lineage.filter(dropped), lineage.filter(pc.invert(dropped))
    rows: list[ShardRow] = []
    if len(staying):
        keep = ~np.asarray(dropped.to_numpy(zero_copy_only=False))
        raw = keep_samples(_raw_shard(dataset, row), keep, store.describe(row.name)).data
        rows = [_store(dataset, unit, raw, staying)]
    reasons = pa.array([TAKEN_DOWN] * len(going), pa.string())
    rejects = encode_table(as_rejects(going.append_column("reason", reasons)))
    stored = StoredFile(name=rejects_name(unit), sha256=sha256_hex(rejects))
    store.write(stored.name, rejects)
    by_source = going.group_by("source").aggregate(
        [("tokens", "sum"), ("text_bytes", "sum"), ("tokens", "count")]
    )
    return UnitRecord(
        unit=unit,
        shards=tuple(rows),
        sources=tuple(
            SourceCounts(
                file=numbers[found["source"]],
                rejected=found["tokens_count"],
                documents=found["tokens_count"],
                tokens=found["tokens_sum"],
                text_bytes=found["text_bytes_sum"],
            )
            for found in sorted(by_source.to_pylist(), key=lambda found: numbers[found["source"]])
        ),
        rejects={TAKEN_DOWN: len(going)},
        rejects_file=stored,
        examples=(),
    )


def _store(dataset: Dataset, unit: int, raw: memoryview, lineage: Any) -> ShardRow:
    stem, store = f"shard.{unit:06d}-000", dataset.store
    stored: bytes | memoryview = raw
    name, raw_sha256 = f"{stem}.mds", sha256_hex(raw)
    if dataset.manifest.compression != "none":
        level = int(dataset.manifest.compression.removeprefix("zstd:"))
        stored, name = compress(raw, level), f"{name}.zstd"
    writer = LineageWriter()
    for batch in lineage.to_batches():
        writer.add(batch)
    where_from, lineage_name = writer.finish(), f"{stem}.lineage.parquet"
    store.write(lineage_name, where_from)
    store.write(name, stored)
    return ShardRow(
        unit=unit,
        name=name,
        raw_bytes=len(raw),
        raw_sha256=raw_sha256,
        stored_bytes=len(stored),
        stored_sha256=raw_sha256 if stored is raw else sha256_hex(stored),
        documents=len(lineage),
        tokens=pc.sum(lineage["tokens"]).as_py(),
        lineage=lineage_name,
        lineage_sha256=sha256_hex(where_from),
    )
