"""Turn the records of all units into a dataset: tables, index, and the manifest last.

Everything written here is a function of the records in unit order, so it does not matter which run, which worker or
which machine did a unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, Final

from headrace.dataeng.lineage import REJECTS_SCHEMA, encode_table
from headrace.dataeng.mds import INDEX, IndexEntry, encode_index
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.errors import BudgetError, DamageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import (
    MANIFEST,
    SHARDS,
    Counts,
    DatasetManifest,
    FileEntry,
    TokenizerId,
    content_hash,
)
from headrace.manifests.parquet import read_table
from headrace.manifests.shard_table import ShardTable
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.filters.prepare import Prepared
from headrace.tokenize.filters.reasons import num_faults, was_asked_for
from headrace.tokenize.journal import COUNTED, SourceCounts, UnitRecord

SOURCES: Final = "sources.parquet"
TOKENIZER: Final = "tokenizer.json"
REJECTS: Final = "rejects.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything that decides the published bytes."""

    sources: tuple[SourceFile, ...]
    tokenizer: bytes
    identity: TokenizerId
    config: TokenizeConfig
    dtype: str
    filters: Prepared = field(default_factory=Prepared)
    resolved: dict[str, Any]  # `config` of the manifest
    inputs: dict[str, Any]
    software: dict[str, str]


def publish(store: Store, job: Job, records: Sequence[UnitRecord], max_rejects: float) -> DatasetManifest:
    """Checks that every row is accounted for and the budget is kept, and publishes.

    Raises:
        DamageError: rows that are neither documents nor rejects, or shards that are gone; nothing is published.
        BudgetError: no documents, or too many rejects that no filter asked for; nothing is published.
    """
    records = sorted(records, key=lambda record: record.unit)
    totals = {name: sum(record.total(name) for record in records) for name in COUNTED}
    rejects = Counter[str]()
    for record in records:
        rejects.update(record.rejects)
    _check_accounts(job, totals, rejects, records)
    _check_budget(totals, rejects, records, max_rejects)

    rows = [shard for record in records for shard in record.shards]
    table = ShardTable.from_rows(rows)
    contents = {
        SHARDS: table.to_parquet(),
        SOURCES: _source_table(job.sources, records),
        TOKENIZER: job.tokenizer,
        REJECTS: _reject_table(store, records),
    }
    files = {name: FileEntry(bytes=len(data), sha256=sha256_hex(data)) for name, data in contents.items()}
    manifest = DatasetManifest(
        tokenizer=job.identity,
        dtype=job.dtype,
        compression=job.config.compression,
        shard_bytes=job.config.shard_bytes,
        counts=Counts(**totals, shards=len(rows)),
        rejects=dict(sorted(rejects.items())),
        config=job.resolved,
        inputs=job.inputs,
        shards_digest=table.digest,
        content_hash=content_hash(job.identity, job.dtype, table),
        files=files,
        software=job.software,
        next_unit=records[-1].unit + 1,
        change={"kind": "tokenize"},
    )
    for name, data in contents.items():
        store.write(name, data)
    expected = {name for row in rows for name in (row.name, row.lineage)}
    if missing := sorted(expected - sweep(store, expected)):
        raise DamageError(
            f"{store.describe()}: {len(missing):,} finished files are gone ({missing[0]}"
            f"{', ...' if len(missing) > 1 else ''}); something removed them while the job ran. Nothing is published: "
            "run the same command again, it makes them anew"
        )
    store.write(INDEX, index_file(manifest, table))
    store.write(MANIFEST, manifest.to_bytes())
    return manifest


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


def sweep(store: Store, expected: set[str]) -> set[str]:
    """Removes shards that no unit knows, from attempts that were given up, and temporaries of killed writers.

    Returns every name that is left.
    """
    store.clean_temporaries()
    found = set(store.list())
    foreign = {name for name in found if name.startswith("shard.")} - expected
    for name in foreign:
        store.remove(name)
    return found - foreign


def _check_accounts(
    job: Job, totals: dict[str, int], rejects: Counter[str], records: Sequence[UnitRecord]
) -> None:
    rows_of = dict.fromkeys(range(len(job.sources)), 0)
    for record in records:
        for part in record.sources:
            rows_of[part.file] += part.rows
    # A stream has as many rows as were read of it; that all of it was read is what its reader vouches for.
    planned = sum(
        rows_of[number] if source.num_rows is None else source.num_rows
        for number, source in enumerate(job.sources)
    )
    in_shards = sum(shard.documents for record in records for shard in record.shards)
    tokens = sum(shard.tokens for record in records for shard in record.shards)
    if (
        planned != totals["rows"]
        or totals["rows"] != totals["documents"] + totals["rejected"]
        or totals["documents"] != in_shards
        or totals["tokens"] != tokens
        or totals["rejected"] != rejects.total()
    ):
        raise DamageError(
            f"rows do not add up: {planned:,} planned, {totals['rows']:,} read, {totals['documents']:,} documents "
            f"({in_shards:,} in shards) and {totals['rejected']:,} rejected ({rejects.total():,} by reason), "
            f"{totals['tokens']:,} tokens ({tokens:,} in shards). Nothing is published; this is a bug in headrace"
        )


def _check_budget(
    totals: dict[str, int], rejects: Counter[str], records: Sequence[UnitRecord], max_rejects: float
) -> None:
    faults = num_faults(rejects)
    filtered = totals["rejected"] - faults
    seen = f"{totals['rows']:,} rows seen, {totals['documents']:,} kept, {totals['rejected']:,} rejected" + (
        f", {filtered:,} of them by filters" if filtered else ""
    )
    reasons = "".join(f"\n  {reason}: {count:,}" for reason, count in rejects.most_common())
    examples = [example for record in records for example in record.examples]
    examples.sort(key=lambda example: was_asked_for(example.rpartition(": ")[2]))  # faults first
    examples = examples[:5]
    first = "\nThe first of them:" + "".join(f"\n  {example}" for example in examples) if examples else ""
    if not totals["documents"]:
        raise BudgetError(f"no document is left, so nothing is published: {seen}{reasons}{first}")
    share = faults / totals["rows"]
    if share > max_rejects:  # a quotient, as `_enough` gives one: 0.29 * 100 is less than 29
        raise BudgetError(
            f"{share:.2%} of the rows were rejected{' for faults' if filtered else ''}, over the budget of "
            f"{max_rejects:.2%}, so nothing is published: {seen}{reasons}{first}\nThe work is kept: run the same "
            f"command with --max-rejects {_enough(faults, totals['rows'])} to publish it"
        )


def _enough(rejected: int, rows: int) -> float:
    """The smallest budget with three decimals that covers the rejects."""
    return -(-rejected * 1000 // rows) / 1000


def _reject_table(store: Store, records: Sequence[UnitRecord]) -> bytes:
    """`rejects.parquet`: a row a rejected row, in order."""
    import pyarrow as pa

    def read(name: str) -> Any:
        return read_table(store.read(name)).cast(REJECTS_SCHEMA)

    names = [record.rejects_file.name for record in records if record.rejects_file is not None]
    with ThreadPoolExecutor(max_workers=16) as pool:
        return encode_table(pa.concat_tables([REJECTS_SCHEMA.empty_table(), *pool.map(read, names)]))


def _source_table(sources: Sequence[SourceFile], records: Sequence[UnitRecord]) -> bytes:
    """`sources.parquet`: a row a source file, in order. docs/formats/dataset.md says every column."""
    import pyarrow as pa

    names = [field.name for field in fields(SourceCounts) if field.name != "file"]
    counts = {name: [0] * len(sources) for name in names}
    for record in records:
        for part in record.sources:
            for name in names:
                counts[name][part.file] += getattr(part, name)
    text = {name: [getattr(source, name) for source in sources] for name in ("name", "format", "fingerprint")}
    columns = {
        "source": text["name"],
        "format": text["format"],
        "bytes": [source.size for source in sources],
        "fingerprint": text["fingerprint"],
        **counts,
    }
    schema = pa.schema(
        [
            pa.field(
                name,
                pa.string() if name in ("source", "format", "fingerprint") else pa.int64(),
                nullable=False,
            )
            for name in columns
        ]
    )
    return encode_table(pa.table(columns, schema))
