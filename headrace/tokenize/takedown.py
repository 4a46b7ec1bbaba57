"""Take documents out of a dataset: a new version without them, and every older one as it was.

    lineage of every shard ──> which documents go ──> the shards that hold any, written anew without them
                                                 └──> all others, shared with the version before

The documents that went are rejects from then on (`taken_down`), so that rows are still documents + rejects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import encode_table
from headrace.dataeng.rejects import join_rejects
from headrace.dataeng.threads import map_ahead
from headrace.errors import BudgetError, DamageError, UsageError
from headrace.manifests.dataset import SHARDS, Counts, DatasetManifest, content_hash
from headrace.manifests.parquet import read_table
from headrace.tokenize.append import open_newest
from headrace.tokenize.claim import ONTO, claim, only_job_in
from headrace.tokenize.filters.reasons import TAKEN_DOWN
from headrace.tokenize.head import make_newest, name_files
from headrace.tokenize.journal import (
    Journal,
    UnitRecord,
    files_of,
    is_intact,
)
from headrace.tokenize.publish import REJECTS, SOURCES, TOKENIZER, sweep
from headrace.tokenize.rewrite import checked_lineage, without
from headrace.tokenize.threaded import Progress, in_order, no_progress
from headrace.tokenize.tidy import tidy_up

_COLUMNS: Final = ("source", "text_bytes", "tokens")  # of every document that goes
_EXAMPLES: Final = 5


class Selection(Protocol):
    """Which documents are meant: a `Predicate` or a `DocumentList`."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def selects(self, lineage: Any) -> Any:
        """A BooleanArray without nulls, for a table with `columns`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Takedown:
    """What is to be taken out: the documents that `selection` selects or, with `keep`, all others.

    told: how `change` of the manifest says what was selected.
    """

    selection: Selection
    keep: bool
    told: Mapping[str, Any]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys((*self.selection.columns, *_COLUMNS)))

    def dropped(self, lineage: Any) -> Any:
        """BooleanArray [documents]."""
        selected = self.selection.selects(lineage)
        return pc.invert(selected) if self.keep else selected

    @property
    def change(self) -> dict[str, Any]:
        return {"kind": "filter", "selected": "kept" if self.keep else "dropped", **self.told}


@dataclass(frozen=True, kw_only=True, slots=True)
class Affected:
    """A shard that loses documents: its place in the shard table, how many, and of which sources."""

    shard: int
    documents: int
    tokens: int
    text_bytes: int
    sources: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TakedownOutcome:
    """affected: empty if the version had been made before. manifest: the new version, or None of a rehearsal."""

    parent: DatasetManifest
    affected: tuple[Affected, ...]
    manifest: DatasetManifest | None
    already_complete: bool = False

    def total(self, what: str) -> int:
        return sum(getattr(each, what) for each in self.affected)

    @property
    def sources(self) -> Counter[str]:
        """Documents that go, by source."""
        found = Counter[str]()
        for each in self.affected:
            found.update(each.sources)
        return found


def take_down(
    uri: str,
    takedown: Takedown,
    *,
    threads: int = 4,
    rehearse: bool = False,
    on_progress: Progress = no_progress,
) -> TakedownOutcome:
    """Makes the version without those documents the newest; with `rehearse` only says which they are.

    Raises:
        UsageError: nothing is selected, so nothing would change.
        BudgetError: no document would be left.
        MismatchError: another change of the dataset is unfinished. IncompleteError: a process is at work on it.
        DamageError: a shard or lineage that is to be written anew is not what was published.
    """
    dataset = open_newest(uri)
    if rehearse:
        affected = tuple(_scan(dataset, takedown, threads, on_progress))
        _require_some(dataset, affected)
        return TakedownOutcome(parent=dataset.manifest, affected=affected, manifest=None)
    with only_job_in(dataset.store):
        dataset = open_newest(uri)
        head = dataset.manifest
        if head.change == takedown.change:
            tidy_up(dataset.store)
            return TakedownOutcome(parent=head, affected=(), manifest=head, already_complete=True)
        affected = tuple(_scan(dataset, takedown, threads, on_progress))
        _require_some(dataset, affected)
        claim(dataset, {ONTO: head.hash, "change": takedown.change})
        dataset.store.clean_temporaries()
        records = _rewrite(dataset, takedown, affected, threads, on_progress)
        manifest = _publish(dataset, takedown, affected, records)
        Journal(dataset.store).remove()
        return TakedownOutcome(parent=head, affected=affected, manifest=manifest)


def _scan(dataset: Dataset, takedown: Takedown, threads: int, on_progress: Progress) -> list[Affected]:
    def look(shard: int) -> Affected | None:
        lineage = checked_lineage(dataset, dataset.shards.row(shard), takedown.columns)
        going = lineage.filter(takedown.dropped(lineage))
        if not len(going):
            return None
        counts = pc.value_counts(going["source"]).to_pylist()
        return Affected(
            shard=shard,
            documents=len(going),
            tokens=pc.sum(going["tokens"]).as_py(),
            text_bytes=pc.sum(going["text_bytes"]).as_py(),
            sources={entry["values"]: entry["counts"] for entry in counts},
        )

    shards = range(dataset.shards.num_shards)
    affected: list[Affected] = []
    looked = map_ahead(look, shards, threads=threads, ahead=4 * threads, name="headrace-scan")
    for done, found in enumerate(looked, start=1):
        affected += [] if found is None else [found]
        on_progress("shards looked at", done, len(shards))
    return affected


def _require_some(dataset: Dataset, affected: Sequence[Affected]) -> None:
    where, documents = dataset.store.describe(), dataset.manifest.counts.documents
    going = sum(each.documents for each in affected)
    if not going:
        raise UsageError(
            f"{where}: none of the {documents:,} documents would go, so there is nothing to do and no new version; look at "
            "lineage with `headrace inspect --number`, and mind that a test of a null selects nothing"
        )
    if going == documents:
        raise BudgetError(
            f"{where}: all {documents:,} documents would go, and no empty dataset is ever published. Nothing was changed; "
            "to be rid of all of it, delete the directory"
        )


def _rewrite(
    dataset: Dataset, takedown: Takedown, affected: Sequence[Affected], threads: int, on_progress: Progress
) -> list[UnitRecord]:
    """A record for every affected shard, in order; those of an earlier run are believed if their files are intact."""
    store, first = dataset.store, dataset.manifest.next_unit
    earlier = Journal(store).records()
    sources = read_table(dataset.read(SOURCES), ["source", "documents"])
    # Of several with one name at most one has documents: the others were taken down, or had none.
    numbers = {
        name: number
        for number, (name, documents) in enumerate(
            zip(sources["source"].to_pylist(), sources["documents"].to_pylist(), strict=True)
        )
        if documents
    }

    def rewrite(item: tuple[int, Affected]) -> UnitRecord:
        unit, each = item
        before = earlier.get(unit)
        if before is not None and all(is_intact(store, file) for file in files_of(before)):
            return before
        record = without(dataset, dataset.shards.row(each.shard), unit, takedown.dropped, numbers)
        Journal(store).write(record)
        return record

    return in_order(rewrite, list(enumerate(affected, start=first)), threads, "shards written", on_progress)


def _publish(
    dataset: Dataset, takedown: Takedown, affected: Sequence[Affected], records: Sequence[UnitRecord]
) -> DatasetManifest:
    parent, store = dataset.manifest, dataset.store
    written = {each.shard: record.shards for each, record in zip(affected, records, strict=True)}
    table = dataset.shards.replaced(written)
    gone = {
        name: sum(record.total(name) for record in records) for name in ("documents", "tokens", "text_bytes")
    }
    counts = Counts(
        rows=parent.counts.rows,
        documents=parent.counts.documents - gone["documents"],
        rejected=parent.counts.rejected + gone["documents"],
        tokens=parent.counts.tokens - gone["tokens"],
        text_bytes=parent.counts.text_bytes - gone["text_bytes"],
        shards=table.num_shards,
    )
    expected = {each.documents for each in affected}, counts.documents, counts.tokens
    if (
        gone["documents"] != sum(each.documents for each in affected)
        or int(table.documents.sum()) != counts.documents
        or int(table.tokens.sum()) != counts.tokens
    ):
        raise DamageError(
            f"documents do not add up ({expected}); nothing is published. This is a bug in headrace"
        )
    taken_down = (
        store.read(record.rejects_file.name) for record in records if record.rejects_file is not None
    )
    contents = {
        SHARDS: table.to_parquet(),
        SOURCES: encode_table(_sources_without(dataset, records)),
        TOKENIZER: dataset.read(TOKENIZER),
        REJECTS: join_rejects(chain([dataset.read(REJECTS)], taken_down)),
    }
    stored, files = name_files(contents, parent)
    by_reason = Counter(parent.rejects)
    by_reason[TAKEN_DOWN] += gone["documents"]
    next_unit = parent.next_unit + len(records)
    manifest = replace(
        parent,
        counts=counts,
        rejects=dict(sorted(by_reason.items())),
        shards_digest=table.digest,
        content_hash=content_hash(parent.tokenizer, parent.dtype, table),
        files=files,
        next_unit=next_unit,
        parent=parent.hash,
        change=takedown.change,
    )
    names = set(table.names())
    if missing := sorted(names - sweep(store, names, range(parent.next_unit, next_unit))):
        raise DamageError(
            f"{store.describe()}: {len(missing):,} files are gone ({missing[0]}{', ...' if len(missing) > 1 else ''}). "
            "Nothing is published: restore them, or run the same command again if they are new"
        )
    make_newest(store, manifest, table, stored, parent)
    return manifest


def _sources_without(dataset: Dataset, records: Sequence[UnitRecord]) -> Any:
    table = read_table(dataset.read(SOURCES))
    for name, sign in (("documents", -1), ("rejected", 1), ("tokens", -1), ("text_bytes", -1)):
        values = table[name].to_numpy().copy()
        for record in records:
            for part in record.sources:
                values[part.file] += sign * getattr(part, name)
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values))
    return table
