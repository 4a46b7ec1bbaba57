"""Look into a dataset without reading all of it: sources, lengths, rejects, and single documents as text."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import read_lineage
from headrace.errors import UsageError
from headrace.manifests.parquet import read_table
from headrace.tokenize.publish import SOURCES, TOKENIZER
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


def sources(dataset: Dataset) -> list[dict[str, Any]]:
    """The rows of `sources.parquet`."""
    rows: list[dict[str, Any]] = read_table(dataset.read(SOURCES)).to_pylist()
    return rows


def lengths(dataset: Dataset) -> tuple[list[tuple[int, int, int]], int]:
    """Documents by length: (at least, below, how many) in powers of two, and how many shards were looked at.

    Large datasets are judged by shards spread evenly over them.
    """
    num_shards = dataset.shards.num_shards
    chosen = np.unique(np.linspace(0, num_shards - 1, min(num_shards, _SURVEYED_SHARDS)).astype(int))
    with ThreadPoolExecutor(max_workers=8) as pool:
        tables = pool.map(lambda index: _lineage(dataset, int(index), ["tokens"]), chosen)
        found = np.concatenate([table["tokens"].to_numpy() for table in tables])
    exponents = np.floor(np.log2(found)).astype(int)
    counts = np.bincount(exponents)
    first = int(exponents.min())
    return [(2**e, 2 ** (e + 1), int(counts[e])) for e in range(first, len(counts))], len(chosen)


def document_by_number(dataset: Dataset, number: int) -> Document:
    """Raises UsageError if there is no such document."""
    ends = np.cumsum(dataset.shards.documents)
    if not 0 <= number < ends[-1]:
        raise UsageError(f"no document {number:,}: the dataset has 0 to {int(ends[-1]) - 1:,}")
    shard = int(np.searchsorted(ends, number, side="right"))
    return _document(dataset, shard, number - (int(ends[shard - 1]) if shard else 0))


def document_by_id(dataset: Dataset, document_id: str) -> Document:
    """The first document with this id, found in the lineage. Raises UsageError if there is none."""
    for shard, ids in _ids(dataset):
        if document_id in ids:
            return _document(dataset, shard, ids.index(document_id))
    column = dataset.manifest.config["id_column"]
    if column is None:
        raise UsageError(
            "the documents of this dataset have no ids, since it was tokenized without --id-column; name one by --number"
        )
    raise UsageError(
        f"no document has the id {document_id!r}; the ids are the values of the column {column!r}"
    )


def _ids(dataset: Dataset) -> Iterator[tuple[int, list[str | None]]]:
    """The ids of every shard, read a few shards ahead of whoever looks at them."""
    shards = range(dataset.shards.num_shards)
    with ThreadPoolExecutor(max_workers=8) as pool:
        for begin in range(0, len(shards), _SHARDS_AHEAD):
            some = shards[begin : begin + _SHARDS_AHEAD]
            tables = pool.map(lambda index: _lineage(dataset, index, ["document_id"]), some)
            for shard, table in zip(some, tables, strict=True):
                yield shard, table["document_id"].to_pylist()


def _lineage(dataset: Dataset, shard: int, columns: list[str] | None = None) -> Any:
    name = dataset.shards.row(shard).lineage
    return read_lineage(dataset.store.read(name), dataset.store.describe(name), columns)


def _document(dataset: Dataset, shard: int, index: int) -> Document:
    from headrace.dataeng.shards import OpenShards

    ids = OpenShards(dataset).get(shard).tokens(index).tolist()
    tokenizer = load(dataset.read(TOKENIZER), TOKENIZER)
    before = int(np.sum(dataset.shards.documents[:shard]))
    lineage = _lineage(dataset, shard).slice(index, 1).to_pylist()[0]
    lineage["text_hash"] = lineage["text_hash"].hex()
    return Document(
        number=before + index,
        shard=dataset.shards.row(shard).name,
        index=index,
        lineage=lineage,
        ids=ids,
        text=tokenizer.decode(ids, skip_special_tokens=False),
    )
