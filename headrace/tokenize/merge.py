"""Join datasets into one: their shards, hashed while they are copied, their lineage, sources and rejects, in the order given.

The new dataset needs none of the old ones. A shard keeps its bytes and gets a new name: the units of each dataset are numbered
on from those of the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import encode_table
from headrace.dataeng.rejects import join_rejects
from headrace.dataeng.sources.location import is_below
from headrace.dataeng.storage import Store
from headrace.dataeng.versions import history, read_head, split_version
from headrace.errors import DamageError, MismatchError, UsageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, SHARDS, Counts, DatasetManifest, content_hash
from headrace.manifests.parquet import read_table
from headrace.manifests.shard_table import ShardRow, ShardTable
from headrace.tokenize.append import frame_of
from headrace.tokenize.claim import claim_new, only_job_in
from headrace.tokenize.head import make_newest, name_files
from headrace.tokenize.journal import Journal, UnitRecord, differences, files_of, is_intact
from headrace.tokenize.publish import REJECTS, SOURCES, TOKENIZER, inputs_of, listing_of, sweep
from headrace.tokenize.threaded import Progress, in_order, no_progress
from headrace.tokenize.tidy import settle

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _Part:
    """The shards of one unit of one dataset, and the number that the unit gets."""

    dataset: Dataset
    unit: int
    rows: tuple[ShardRow, ...]


def merge(
    uris: Sequence[str], out: str, *, threads: int = 4, on_progress: Progress = no_progress
) -> tuple[DatasetManifest, bool]:
    """The dataset `out` of all documents of `uris`, and whether it had been complete before.

    Raises:
        UsageError: fewer than two datasets, or an `out` that lies in one of them.
        MismatchError: datasets that do not go together, each difference named; a source that is in two of them; `out` holds
            something else.
        DamageError: a file is not what was published. IncompleteError: another process is at work on `out`.
    """
    if len(uris) < 2:
        raise UsageError(f"{len(uris)} dataset given; a merge is of two or more")
    for uri in uris:
        if is_below(out, split_version(uri)[0]):
            raise UsageError(
                f"--out {Store(out).describe()} lies in the dataset {uri}; give a directory outside of it"
            )
    datasets = [Dataset.open(uri) for uri in uris]
    _require_alike(datasets)
    sources = pa.concat_tables([read_table(dataset.read(SOURCES)) for dataset in datasets])
    _require_distinct(sources["source"].to_pylist(), sources["documents"].to_pylist())
    store = Store(out)
    change = {
        "kind": "merge",
        "of": [
            {
                "version": dataset.manifest.hash,
                "content_hash": dataset.manifest.content_hash,
                "config": dataset.manifest.config,
                "software": dataset.manifest.software,
            }
            for dataset in datasets
        ],
    }
    with only_job_in(store):
        if store.exists(MANIFEST):
            return _finished(store, change), True
        claim_new(store, {"change": change})
        records = _copy(store, _parts(datasets), threads, on_progress)
        manifest = _publish(store, datasets, change, sources, records)
        Journal(store).remove()
        return manifest, False


def _require_alike(datasets: Sequence[Dataset]) -> None:
    first = datasets[0]
    for other in datasets[1:]:
        if told := differences(frame_of(first.manifest), frame_of(other.manifest)):
            raise MismatchError(
                f"{first.store.describe()} and {other.store.describe()} do not go into one dataset. They differ in\n{told}\n"
                "Tokenize one of them as the other was; or train on both, each as a source of its own, if only how shards are "
                "stored differs"
            )


def _require_distinct(names: Sequence[str], documents: Sequence[int]) -> None:
    """A source is its name in lineage, so two with documents and one name could not be told apart."""
    counted = Counter(name for name, count in zip(names, documents, strict=True) if count)
    if twice := [name for name, count in counted.items() if count > 1]:
        raise MismatchError(
            f"{len(twice):,} sources are in two of the datasets ({', '.join(twice[:_SHOWN])}"
            f"{', ...' if len(twice) > _SHOWN else ''}): their documents would be there twice, or could not be told apart. Take "
            "them out of one, with `headrace filter --drop --where \"source = '...'\"`"
        )


def _finished(store: Store, change: dict[str, Any]) -> DatasetManifest:
    head = read_head(store)
    for version in history(store, head):
        if version.change == change:
            settle(store, version, is_newest=version is head)
            return version
    raise MismatchError(f"{store.describe()} holds another dataset; give another --out")


def _parts(datasets: Sequence[Dataset]) -> list[_Part]:
    parts: list[_Part] = []
    first = 0
    for dataset in datasets:
        by_unit: dict[int, list[ShardRow]] = {}
        for row in dataset.shards.rows():
            by_unit.setdefault(row.unit, []).append(row)
        parts += [_Part(dataset, first + unit, tuple(rows)) for unit, rows in by_unit.items()]
        first += dataset.manifest.next_unit
    return parts


def _copy(store: Store, parts: Sequence[_Part], threads: int, on_progress: Progress) -> list[UnitRecord]:
    """A record for every part, in order; those of an earlier run are believed if their files are intact."""
    journal = Journal(store)
    earlier = journal.records()

    def copy(part: _Part) -> UnitRecord:
        before = earlier.get(part.unit)
        if before is not None and all(is_intact(store, file) for file in files_of(before)):
            return before
        rows = [_copy_shard(store, part, number, row) for number, row in enumerate(part.rows)]
        record = UnitRecord(
            unit=part.unit, shards=tuple(rows), sources=(), rejects={}, rejects_file=None, examples=()
        )
        journal.write(record)
        return record

    return in_order(copy, parts, threads, "units copied", on_progress)


def _copy_shard(store: Store, part: _Part, number: int, row: ShardRow) -> ShardRow:
    stem = f"shard.{part.unit:06d}-{number:03d}"
    name = f"{stem}.mds.zstd" if row.name.endswith(".zstd") else f"{stem}.mds"
    lineage = f"{stem}.lineage.parquet"
    for old, new, expected in (
        (row.lineage, lineage, row.lineage_sha256),
        (row.name, name, row.stored_sha256),
    ):
        where = part.dataset.store.describe(old)
        try:
            data = part.dataset.store.read(old)
        except FileNotFoundError:
            raise DamageError(f"{where} is missing; restore it") from None
        if (found := sha256_hex(data)) != expected:
            raise DamageError(
                f"{where}: SHA-256 {found[:16]}…, the shard table says {expected[:16]}…; restore it"
            )
        store.write(new, data)
    return replace(row, unit=part.unit, name=name, lineage=lineage)


def _in_order_of(datasets: Sequence[Dataset], records: Sequence[UnitRecord]) -> Iterator[ShardRow]:
    """The copied shards as the tables have them, where a takedown puts shards of new units amid those of an old one."""
    copied = {record.unit: iter(record.shards) for record in records}
    first = 0
    for dataset in datasets:
        for row in dataset.shards.rows():
            yield next(copied[first + row.unit])
        first += dataset.manifest.next_unit


def _publish(
    store: Store,
    datasets: Sequence[Dataset],
    change: dict[str, Any],
    sources: Any,
    records: Sequence[UnitRecord],
) -> DatasetManifest:
    manifests = [dataset.manifest for dataset in datasets]
    table = ShardTable.from_rows(_in_order_of(datasets, records))
    by_reason = Counter[str]()
    for manifest in manifests:
        by_reason.update(manifest.rejects)
    stored, files = name_files(
        {
            SHARDS: table.to_parquet(),
            SOURCES: encode_table(sources),
            TOKENIZER: datasets[0].read(TOKENIZER),
            REJECTS: join_rejects(dataset.read(REJECTS) for dataset in datasets),
        },
        None,
    )
    counts = [asdict(manifest.counts) for manifest in manifests]
    merged = replace(
        manifests[0],
        counts=Counts(**{name: sum(count[name] for count in counts) for name in counts[0]}),
        rejects=dict(sorted(by_reason.items())),
        config=_common([manifest.config for manifest in manifests]),
        inputs=inputs_of(listing_of(sources)),
        shards_digest=table.digest,
        content_hash=content_hash(manifests[0].tokenizer, manifests[0].dtype, table),
        files=files,
        software=_common([manifest.software for manifest in manifests], mixed=False),
        next_unit=sum(manifest.next_unit for manifest in manifests),
        change=change,
        parent=None,
    )
    names = set(table.names())
    if missing := sorted(names - sweep(store, names, range(merged.next_unit))):
        raise DamageError(
            f"{store.describe()}: {len(missing):,} copied files are gone ({missing[0]}"
            f"{', ...' if len(missing) > 1 else ''}); something removed them meanwhile. Nothing is published: run the same "
            "command again"
        )
    make_newest(store, merged, table, stored, None)
    return merged


def _common(values: Sequence[dict[str, Any]], *, mixed: bool = True) -> dict[str, Any]:
    """What all say alike. With `mixed` the others are null, and listed."""
    names = list(dict.fromkeys(name for value in values for name in value if name != "mixed"))
    differing = {name for name in names if any(value.get(name) != values[0].get(name) for value in values)}
    differing |= {name for value in values for name in value.get("mixed", [])}
    if not mixed:
        return {name: values[0][name] for name in names if name not in differing}
    common = {name: None if name in differing else values[0][name] for name in names}
    return {**common, "mixed": sorted(differing)} if differing else common
