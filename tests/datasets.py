"""Datasets written straight in the published formats, for tests below the tokenization pipeline."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zstandard

from headrace.dataeng.mds import encode_shard
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
from headrace.manifests.shard_table import ShardRow, ShardTable

Documents = Sequence[Sequence[int]]


def random_documents(
    seed: int, num_documents: int, *, longest: int = 60, vocab_size: int = 1000
) -> list[list[int]]:
    """Documents of 1 to `longest` random ids."""
    random = np.random.default_rng(seed)
    return [
        random.integers(0, vocab_size, random.integers(1, longest + 1)).tolist() for _ in range(num_documents)
    ]


def write_dataset(
    root: Path,
    shards: Sequence[Documents],
    *,
    vocab_size: int = 1000,
    dtype: str = "uint16",
    compression: str = "none",
    tokenizer_sha256: str = "ab" * 32,
) -> Path:
    """Publishes `shards` (documents of each) under `root` and returns it."""
    root.mkdir(parents=True, exist_ok=True)
    rows = []
    for unit, documents in enumerate(shards):
        lengths = np.array([len(document) for document in documents], np.int64)
        flat = np.array([token for document in documents for token in document], np.dtype(dtype))
        raw = encode_shard(flat, lengths, 1 << 20)
        stored = raw if compression == "none" else zstandard.ZstdCompressor(level=3).compress(raw)
        name = f"shard.{unit:06d}-000.mds" + ("" if compression == "none" else ".zstd")
        (root / name).write_bytes(stored)
        rows.append(
            ShardRow(
                unit=unit,
                name=name,
                raw_bytes=len(raw),
                raw_sha256=sha256_hex(raw),
                stored_bytes=len(stored),
                stored_sha256=sha256_hex(stored),
                documents=len(documents),
                tokens=len(flat),
                lineage=f"shard.{unit:06d}-000.lineage.parquet",
                lineage_sha256=hashlib.sha256(name.encode()).hexdigest(),
            )
        )
    table = ShardTable.from_rows(rows)
    tokenizer = TokenizerId(
        sha256=tokenizer_sha256,
        name="numbers",
        library="none 0",
        vocab_size=vocab_size,
        bos=None,
        bos_id=None,
        eos=None,
        eos_id=None,
        special_tokens="as-text",
    )
    data = table.to_parquet()
    (root / SHARDS).write_bytes(data)
    num_documents = sum(row.documents for row in rows)
    manifest = DatasetManifest(
        tokenizer=tokenizer,
        dtype=dtype,
        compression=compression if compression == "none" else "zstd:3",
        shard_bytes=1 << 20,
        counts=Counts(
            rows=num_documents,
            documents=num_documents,
            rejected=0,
            tokens=sum(row.tokens for row in rows),
            text_bytes=0,
            shards=len(rows),
        ),
        rejects={},
        config={},
        inputs={},
        shards_digest=table.digest,
        content_hash=content_hash(tokenizer, dtype, table),
        files={SHARDS: FileEntry(bytes=len(data), sha256=sha256_hex(data))},
        software={},
        next_unit=len(rows),
        change={"kind": "tokenize"},
    )
    (root / MANIFEST).write_bytes(manifest.to_bytes())
    return root
