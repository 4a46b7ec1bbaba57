"""Look into a dataset without reading all of it: sources, lengths, rejects, and single documents as text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.threads import map_ahead
from headrace.errors import DamageError, UsageError
from headrace.tokenize.publish import SOURCES, TOKENIZER
from headrace.tokenize.rewrite import checked_lineage
from headrace.tokenize.tokenizers import load

_SURVEYED_SHARDS = 64
_SHARDS_AHEAD = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """One document: where it lies, where it came from (its lineage row), and its text as decoded from the tokens."""

    number: int  # in the dataset, from 0
    shard: str
    index: int  # in the shard
    lineage: dict[str, Any]
    ids: list[int]
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """Documents by tokens. Of a large dataset from `shards` of its shards, spread evenly over it.

    histogram: (at least, below, how many) in powers of two. quantiles: tokens at "median", "p90", "p99" and "largest".
    """

    shards: int
    documents: int
    histogram: list[tuple[int, int, int]]
    quantiles: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What is in a dataset. sources: rows of `sources.parquet`, those with the most tokens, of `num_sources`."""

    dataset: Dataset
    raw_bytes: int  # of shards before compression
    stored_bytes: int  # of shards
    num_sources: int
    sources: list[dict[str, Any]]
    lengths: Lengths


def survey(dataset: Dataset, *, num_sources: int) -> Survey:
    """Reads the tables and some lineage; memory does not follow the number of sources or documents.

    Raises DamageError if what it reads is not what was published.
    """
    count, largest = sources(dataset, num_sources)
    return Survey(
        dataset=dataset,
        raw_bytes=int(dataset.shards.column("raw_bytes").sum()),
        stored_bytes=int(dataset.shards.column("stored_bytes").sum()),
        num_sources=count,
        sources=largest,
        lengths=lengths(dataset),
    )


def sources(dataset: Dataset, num_sources: int) -> tuple[int, list[dict[str, Any]]]:
    """How many there are, and the `num_sources` with the most tokens, of equals the first: rows of `sources.parquet`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = dataset.manifest.stored_name(SOURCES)
    where = dataset.store.describe(name)
    count, kept = 0, None
    try:
        with dataset.store.open(name) as file:
            # One row group after another, on this thread: `manifests.parquet` says why.
            opened = pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)
            for group in range(opened.num_row_groups):
                table = opened.read_row_group(group, use_threads=False)
                count += len(table)
                kept = table if kept is None else pa.concat_tables([kept, table])
                order = np.argsort(-kept["tokens"].to_numpy(), kind="stable")[:num_sources]
                kept = kept.take(np.ascontiguousarray(order))
    except FileNotFoundError:
        raise DamageError(f"{where} is missing; restore it, or tokenize again") from None
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DamageError(f"{where}: not a table of sources ({type(error).__name__}); restore it") from None
    return count, [] if kept is None else kept.to_pylist()


def lengths(dataset: Dataset) -> Lengths:
    """Documents by tokens."""
    num_shards = dataset.shards.num_shards
    chosen = np.unique(np.linspace(0, num_shards - 1, min(num_shards, _SURVEYED_SHARDS)).astype(int))
    tables = map_ahead(
        lambda index: _lineage(dataset, int(index), ["tokens"]), chosen, threads=8, ahead=_SHARDS_AHEAD
    )
    found = np.sort(np.concatenate([table["tokens"].to_numpy() for table in tables]))
    counts = np.bincount(np.log2(found).astype(int))
    first = int(np.flatnonzero(counts)[0])
    last = len(found) - 1
    return Lengths(
        shards=len(chosen),
        documents=len(found),
        histogram=[(2**e, 2 ** (e + 1), int(counts[e])) for e in range(first, len(counts))],
        quantiles={
            name: int(found[last * percent // 100])
            for name, percent in (("median", 50), ("p90", 90), ("p99", 99), ("largest", 100))
        },
    )


def sample(dataset: Dataset, count: int, seed: int) -> list[Document]:
    """`count` documents (or all, if there are fewer), each as likely as any other, in their order.

    The same for the same dataset and seed, anywhere.
    """
    total, chosen, draw = dataset.manifest.counts.documents, set[int](), 0
    if count >= total:
        chosen = set(range(total))
    while len(chosen) < min(count, total):
        key = f"{dataset.manifest.hash}:{seed}:{draw}".encode()
        # 128 bits over any number of documents: the remainder favours none by more than one in 2**64.
        chosen.add(int.from_bytes(hashlib.sha256(key).digest()[:16], "big") % total)
        draw += 1
    reader = _Reader(dataset)
    return [reader.document(*_place(dataset, number)) for number in sorted(chosen)]


def document_by_number(dataset: Dataset, number: int) -> Document:
    """Raises UsageError if there is no such document."""
    if not 0 <= number < dataset.manifest.counts.documents:
        last = dataset.manifest.counts.documents - 1
        raise UsageError(f"no document {number:,}: the dataset has 0 to {last:,}")
    return _Reader(dataset).document(*_place(dataset, number))


def document_by_id(dataset: Dataset, document_id: str) -> Document:
    """The first document with this id, found in the lineage. Raises UsageError if there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.scalar(document_id, pa.string())

    def look(shard: int) -> tuple[int, int, bool]:
        ids = _lineage(dataset, shard, ["document_id"])["document_id"]
        return shard, pc.index(ids, wanted).as_py(), ids.null_count < len(ids)

    shards = range(dataset.shards.num_shards)
    some_have_one = False
    for shard, index, has_ids in map_ahead(look, shards, threads=8, ahead=_SHARDS_AHEAD):
        if index >= 0:
            return _Reader(dataset).document(shard, index)
        some_have_one |= has_ids
    if not some_have_one:
        raise UsageError(
            "the documents of this dataset have no ids, since it was tokenized without --id-column; name one by --number"
        )
    column = dataset.manifest.config.get("id_column")
    told = "" if column is None else f"; the ids are the values of the column {column!r}"
    raise UsageError(f"no document has the id {document_id!r}{told}")


def _place(dataset: Dataset, number: int) -> tuple[int, int]:
    """Shard, and document within it, of the document number `number`."""
    ends = np.cumsum(dataset.shards.documents)
    shard = int(np.searchsorted(ends, number, side="right"))
    return shard, number - (int(ends[shard - 1]) if shard else 0)


def _lineage(dataset: Dataset, shard: int, columns: list[str] | None = None) -> Any:
    return checked_lineage(dataset, dataset.shards.row(shard), columns)


class _Reader:
    """Reads and decodes documents, with one tokenizer."""

    def __init__(self, dataset: Dataset) -> None:
        from headrace.dataeng.shards import OpenShards

        self._dataset = dataset
        self._shards = OpenShards(dataset)
        self._tokenizer = load(dataset.read(TOKENIZER), TOKENIZER)

    def document(self, shard: int, index: int) -> Document:
        dataset = self._dataset
        ids = self._shards.get(shard).tokens(index).tolist()
        lineage = _lineage(dataset, shard).slice(index, 1).to_pylist()[0]
        lineage["text_hash"] = lineage["text_hash"].hex()
        return Document(
            number=int(np.sum(dataset.shards.documents[:shard])) + index,
            shard=dataset.shards.row(shard).name,
            index=index,
            lineage=lineage,
            ids=ids,
            text=self._tokenizer.decode(ids, skip_special_tokens=False),
        )
