"""Turn the records of all units into a dataset: tables, index, and the manifest last.

Everything written here is a function of the records in unit order, so it does not matter which run, which worker or
which machine did a unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Final

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import encode_table
from headrace.dataeng.rejects import join_rejects
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.dataeng.threads import map_ahead
from headrace.errors import BudgetError, DamageError
from headrace.manifests.canonical import canonical_json, sha256_hex
from headrace.manifests.dataset import SHARDS, Counts, DatasetManifest, TokenizerId, content_hash
from headrace.manifests.names import unit_of
from headrace.manifests.parquet import read_table
from headrace.manifests.shard_table import ShardTable
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.filters.prepare import Prepared
from headrace.tokenize.filters.reasons import num_faults, was_asked_for
from headrace.tokenize.head import make_newest, name_files
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
    parent: Dataset | None = None  # the version to which the sources are added
    begins_as: str = "tokenize"  # `change.kind` of a version without a parent

    @property
    def kind(self) -> str:
        """`change.kind` of the version that it publishes."""
        return self.begins_as if self.parent is None else "append"


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    """A version as it is to be published. contents: the bytes of its tables and tokenizer, by plain name; stored: of them,
    what its parent does not share, by stored name.
    """

    manifest: DatasetManifest
    table: ShardTable
    contents: dict[str, bytes]
    stored: dict[str, bytes]
    parent: DatasetManifest | None


def publish(store: Store, job: Job, records: Sequence[UnitRecord], max_rejects: float) -> DatasetManifest:
    """Checks that every row is accounted for and the budget is kept, and publishes.

    Raises:
        DamageError: rows that are neither documents nor rejects, or shards that are gone; nothing is published.
        BudgetError: no documents, or too many rejects that no filter asked for; nothing is published.
        MismatchError: as `make_newest`.
    """
    version = assemble(store, job, records, max_rejects)
    manifest, parent = version.manifest, version.parent
    expected = set(version.table.names())
    if missing := sorted(expected - sweep(store, expected, units_of(manifest, parent))):
        raise DamageError(
            f"{store.describe()}: {len(missing):,} finished files are gone ({missing[0]}"
            f"{', ...' if len(missing) > 1 else ''}); something removed them while the job ran. Nothing is published: "
            "run the same command again, it makes them anew"
        )
    make_newest(store, manifest, version.table, version.stored, parent)
    return manifest


def assemble(store: Store, job: Job, records: Sequence[UnitRecord], max_rejects: float) -> Version:
    """What `publish` publishes, of the job whose units' files are in `store`; nothing is written.

    Raises:
        DamageError: rows that are neither documents nor rejects.
        BudgetError: no documents, or too many rejects that no filter asked for.
    """
    import pyarrow as pa

    records = sorted(records, key=lambda record: record.unit)
    totals = {name: sum(record.total(name) for record in records) for name in COUNTED}
    rejects = Counter[str]()
    for record in records:
        rejects.update(record.rejects)
    _check_accounts(job, totals, rejects, records)
    _check_budget(job, totals, rejects, records, max_rejects)

    table = ShardTable.from_rows(shard for record in records for shard in record.shards)
    sources = _source_table(job.sources, records)
    parent: DatasetManifest | None = None
    change: dict[str, Any] = {"kind": job.kind}
    config, inputs = job.resolved, job.inputs
    if job.parent is not None:
        parent = job.parent.manifest
        config, change = parent.config, {"kind": job.kind, "inputs": job.inputs, "config": job.resolved}
        table = ShardTable.concatenate([job.parent.shards, table])
        sources = pa.concat_tables([read_table(job.parent.read(SOURCES)), sources])
        inputs = inputs_of(listing_of(sources))
        totals = {name: count + getattr(parent.counts, name) for name, count in totals.items()}
        rejects.update(parent.rejects)
    contents = {
        SHARDS: table.to_parquet(),
        SOURCES: encode_table(sources),
        TOKENIZER: job.tokenizer,
        REJECTS: _rejects_file(store, records, job.parent),
    }
    stored, files = name_files(contents, parent)
    manifest = DatasetManifest(
        tokenizer=job.identity,
        dtype=job.dtype,
        compression=job.config.compression,
        shard_bytes=job.config.shard_bytes,
        counts=Counts(**totals, shards=table.num_shards),
        rejects=dict(sorted(rejects.items())),
        config=config,
        inputs=inputs,
        shards_digest=table.digest,
        content_hash=content_hash(job.identity, job.dtype, table),
        files=files,
        software=job.software,
        next_unit=records[-1].unit + 1,
        change=change,
        parent=None if parent is None else parent.hash,
    )
    return Version(manifest=manifest, table=table, contents=contents, stored=stored, parent=parent)


def inputs_of(listing: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """`inputs` of a manifest, from [name, format, bytes, fingerprint] of every source file in order."""
    return {
        "files": len(listing),
        "bytes": sum(size for _, _, size, _ in listing),
        "digest": sha256_hex(canonical_json(listing)),
    }


def listing_of(sources: Any) -> list[list[Any]]:
    """What `inputs_of` takes, from a table of sources."""
    columns = [sources[name].to_pylist() for name in ("source", "format", "bytes", "fingerprint")]
    return [list(row) for row in zip(*columns, strict=True)]


def units_of(manifest: DatasetManifest, parent: DatasetManifest | None) -> range:
    """The unit numbers that this version was the first to use."""
    return range(0 if parent is None else parent.next_unit, manifest.next_unit)


def sweep(store: Store, expected: set[str], units: range) -> set[str]:
    """Removes shards of `units` that no version knows, from attempts that were given up, and temporaries of killed
    writers. Shards with other numbers are other versions' or jobs', and stay.

    Returns every name that is left.
    """
    store.clean_temporaries()
    found = set(store.list())
    foreign = {name for name in found - expected if (unit := unit_of(name)) is not None and unit in units}
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
    job: Job,
    totals: dict[str, int],
    rejects: Counter[str],
    records: Sequence[UnitRecord],
    max_rejects: float,
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
        # The journal of a change keeps any other out; that of a new dataset lies in a directory of its own.
        given_up = (
            "\nThe dataset is as it was. Before another change, give this one up: `headrace versions --abandon`"
            if job.parent is not None
            else ""
        )
        raise BudgetError(f"no document is left, so nothing is published: {seen}{reasons}{first}{given_up}")
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


def _rejects_file(store: Store, records: Sequence[UnitRecord], parent: Dataset | None) -> bytes:
    """`rejects.parquet`: a row a rejected row, in order, behind those of the version before."""
    names = [record.rejects_file.name for record in records if record.rejects_file is not None]
    before = [] if parent is None else [parent.read(REJECTS)]
    return join_rejects(chain(before, map_ahead(store.read, names, threads=16, ahead=32)))


def _source_table(sources: Sequence[SourceFile], records: Sequence[UnitRecord]) -> Any:
    """`sources.parquet` as a table: a row a source file, in order. docs/formats/dataset.md says every column."""
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
    return pa.table(columns, schema)
