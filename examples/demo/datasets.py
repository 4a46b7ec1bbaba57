"""What two tokenized datasets hold, document for document, read by the formats' own pages and not by the loader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

import headrace


@dataclass(frozen=True, slots=True)
class Tokenized:
    """One document: its lineage (id, hash of its text) and its token ids."""

    id: str
    text_hash: bytes
    tokens: NDArray[np.generic]


def read(directory: Path) -> Iterator[Tokenized]:
    """Every document of an uncompressed dataset, in its order."""
    dataset = headrace.Dataset.open(directory)
    for number in range(dataset.shards.num_shards):
        row = dataset.shards.row(number)
        lineage = pq.read_table(directory / row.lineage, columns=["document_id", "text_hash"])
        samples = mds_samples((directory / row.name).read_bytes(), dataset.manifest.dtype)
        for id_, text_hash, tokens in zip(
            *(column.to_pylist() for column in lineage.columns), samples, strict=True
        ):
            yield Tokenized(id_, text_hash, tokens)


def mds_samples(shard: bytes, dtype: str) -> Iterator[NDArray[np.generic]]:
    """The documents of one MDS shard (docs/formats/mds.md)."""
    num_samples = int.from_bytes(shard[:4], "little")
    offsets = np.frombuffer(shard, "<u4", num_samples + 1, offset=4)
    for begin in offsets[:-1].tolist():
        length_bytes = 1 << (shard[begin + 4] & 3)
        at = begin + 5 + length_bytes
        num_tokens = int.from_bytes(shard[begin + 5 : at], "little")
        yield np.frombuffer(shard, np.dtype(dtype).newbyteorder("<"), num_tokens, offset=at)


def differences(left: Path, right: Path) -> tuple[int, list[str]]:
    """(documents compared, what differs), over both datasets to their ends."""
    found: list[str] = []
    count = 0
    for count, (a, b) in enumerate(zip_longest(read(left), read(right)), start=1):
        if a is None or b is None:
            found.append(f"{(a or b).id}: only in {(left if b is None else right).name}")
        elif (a.id, a.text_hash) != (b.id, b.text_hash):
            found.append(f"document {count}: {a.id} in {left.name}, {b.id} in {right.name}")
        elif not np.array_equal(a.tokens, b.tokens):
            found.append(f"{a.id}: other token ids in {right.name} than in {left.name}")
    return count, found
