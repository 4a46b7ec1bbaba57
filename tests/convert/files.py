"""Token files of other tools, written from what their formats say, and what a dataset holds of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.convert.adopt import AdoptConfig, adopt
from headrace.convert.vocabulary import of_size
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import read_lineage
from headrace.dataeng.shards import OpenShards
from headrace.manifests.parquet import read_table
from headrace.tokenize.config import Execution
from headrace.tokenize.pipeline import Outcome

Documents = Sequence[Sequence[int]]
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def write_megatron(
    prefix: Path, sequences: Documents, dtype: str, borders: Sequence[int] | None = None
) -> str:
    """As IndexedDatasetBuilder does: `borders` are the numbers of sequences before each document, and in all."""
    flat = [token for sequence in sequences for token in sequence]
    Path(f"{prefix}.bin").write_bytes(np.array(flat, f"<{np.dtype(dtype).str[1:]}").tobytes())
    Path(f"{prefix}.idx").write_bytes(megatron_index([len(s) for s in sequences], dtype, borders))
    return str(prefix)


def megatron_index(lengths: Sequence[int], dtype: str, borders: Sequence[int] | None = None) -> bytes:
    borders = range(len(lengths) + 1) if borders is None else borders
    pointers = [sum(lengths[:i]) * np.dtype(dtype).itemsize for i in range(len(lengths))]
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, CODES[dtype], len(lengths), len(borders))
    return b"".join(
        [
            head,
            np.array(lengths, "<i4").tobytes(),
            np.array(pointers, "<i8").tobytes(),
            np.array(borders, "<i8").tobytes(),
        ]
    )


def write_datatrove(path: Path, documents: Documents, size: int, *, metadata: bool = True) -> str:
    """As `TokenizedFile` of datatrove does."""
    flat = [token for document in documents for token in document]
    path.write_bytes(struct.pack(f"<{len(flat)}{'I' if size == 4 else 'H'}", *flat))
    ends = np.cumsum([len(document) for document in documents]).tolist()
    Path(f"{path}.index").write_bytes(struct.pack(f"<{len(ends)}Q", *ends))
    if metadata:
        Path(f"{path}.metadata").write_text(f"gpt2|{size}\n{len(flat)}\n{len(flat)} T")
    return str(path)


def take_in(
    out: Path,
    *places: str | Path,
    vocab_size: int = 1000,
    eos: str = "none",
    bos: str = "none",
    workers: int = 1,
    max_rejects: float = 0.01,
    **config: Any,
) -> Outcome:
    """`headrace adopt` as a call."""
    execution = Execution(workers=workers, max_rejects=max_rejects)
    vocabulary = of_size(vocab_size, bos=bos, eos=eos)
    return adopt([str(place) for place in places], vocabulary, str(out), AdoptConfig(**config), execution)


def documents_of(out: Path) -> list[list[int]]:
    """Every document of a dataset, in order."""
    dataset = Dataset.open(out)
    shards = OpenShards(dataset)
    found = []
    for index in range(dataset.shards.num_shards):
        shard = shards.get(index)
        found += [shard.tokens(document).tolist() for document in range(shard.row.documents)]
    return found


def lineage_of(out: Path) -> list[dict[str, Any]]:
    """Every row of lineage, in order."""
    dataset = Dataset.open(out)
    rows: list[dict[str, Any]] = []
    for row in dataset.shards.rows():
        rows += read_lineage((out / row.lineage).read_bytes(), row.lineage).to_pylist()
    return rows


def rejects_of(out: Path) -> list[dict[str, Any]]:
    return list(read_table(Dataset.open(out).read("rejects.parquet")).to_pylist())
