"""Datasets of a few documents by the real writer and publisher, without tokenizer and workers: for tests of many versions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import lineage_rows, read_lineage, text_hash
from headrace.dataeng.rejects import Place, Rejects
from headrace.dataeng.shards import OpenShards
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import DatasetManifest, TokenizerId
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import Journal, SourceCounts, StoredFile, UnitRecord, rejects_name
from headrace.tokenize.publish import Job, inputs_of, publish
from headrace.tokenize.shard_writer import ShardWriter

TOKENIZER = TokenizerId(
    sha256=sha256_hex(b"{}"), name="numbers-1000", library="none 0", vocab_size=1000, bos=None, bos_id=None,
    eos="<eos>", eos_id=0, special_tokens="as-text",
)  # fmt: skip
CONFIG = TokenizeConfig(shard_bytes=1024)
Document = tuple[str, str, int, tuple[int, ...]]  # id, source, row, tokens


def documents(source: str, lengths: Sequence[int]) -> list[Document]:
    """One document a length; its tokens are made from its name. Length 0 stands for a row that is rejected."""
    seeds = [int.from_bytes(text_hash(f"{source} {row}".encode())[:4]) for row in range(len(lengths))]
    return [
        (
            f"{source}-{row}",
            source,
            row,
            tuple(np.random.default_rng(seed).integers(1, 1000, length).tolist()),
        )
        for row, (seed, length) in enumerate(zip(seeds, lengths, strict=True))
    ]


def publish_small(
    root: Path | str,
    sources: Mapping[str, Sequence[int]],
    *,
    onto: bool = False,
    compression: str = "none",
    **job: Any,
) -> DatasetManifest:
    """One unit a source; `sources` are names and the lengths of their documents. With `onto` a new version of `root`."""
    store = Store(root)
    parent = Dataset.open(store.uri) if onto else None
    first = 0 if parent is None else parent.manifest.next_unit
    config = dataclasses.replace(CONFIG, compression=compression)
    files = tuple(
        SourceFile(
            uri=name, name=name, format="parquet", size=len(lengths), fingerprint=sha256_hex(repr(lengths).encode()),
            num_rows=len(lengths),
        )
        for name, lengths in sources.items()
    )  # fmt: skip
    records = [
        _unit(store, first + number, number, documents(name, lengths), config)
        for number, (name, lengths) in enumerate(sources.items())
    ]
    made = Job(
        sources=files,
        tokenizer=b"{}",
        identity=TOKENIZER,
        config=config,
        dtype="uint16",
        resolved={"id_column": "id", "text_column": "text"},
        inputs=inputs_of([[file.name, file.format, file.size, file.fingerprint] for file in files]),
        software={},
        parent=parent,
        **job,
    )
    manifest = publish(store, made, records, 1.0)
    Journal(store).remove()
    return manifest


def _unit(store: Store, unit: int, file: int, rows: Sequence[Document], config: TokenizeConfig) -> UnitRecord:
    kept = [row for row in rows if row[3]]
    with ShardWriter(
        store, unit, dtype="uint16", shard_bytes=config.shard_bytes, zstd_level=config.zstd_level
    ) as writer:
        if kept:
            lengths = np.array([len(tokens) for *_, tokens in kept], np.int64)
            hashes = [text_hash(identity.encode()) for identity, *_ in kept]
            lineage = lineage_rows(
                source=kept[0][1],
                row_group=0,
                row=np.array([row for _, _, row, _ in kept], np.int64),
                byte_offset=None,
                document_id=pa.array([identity for identity, *_ in kept], pa.string()),
                text_bytes=2 * lengths,
                tokens=lengths,
                text_hash=pa.array(hashes, pa.binary(16)),
            )
            writer.add(np.concatenate([np.array(tokens, np.uint16) for *_, tokens in kept]), lengths, lineage)
        shards = writer.finish()
    rejects, stored = Rejects(), None
    empty = np.array([row for _, _, row, tokens in rows if not tokens], np.int64)
    if len(empty):
        rejects.add(Place(part=0, source=rows[0][1], row_group=0), empty, None, "empty")
        stored = StoredFile(name=rejects_name(unit), sha256=sha256_hex(rejects.to_parquet()))
        store.write(stored.name, rejects.to_parquet())
    tokens = sum(len(row[3]) for row in kept)
    counts = SourceCounts(
        file=file,
        rows=len(rows),
        documents=len(kept),
        rejected=len(empty),
        tokens=tokens,
        text_bytes=2 * tokens,
    )
    return UnitRecord(
        unit=unit,
        shards=tuple(shards),
        sources=(counts,),
        rejects=rejects.counts(),
        rejects_file=stored,
        examples=(),
    )


def all_documents(dataset: Dataset) -> list[Document]:
    """What a reader of this version sees, in order."""
    opened = OpenShards(dataset)
    found: list[Document] = []
    for index, row in enumerate(dataset.shards.rows()):
        shard = opened.get(index)
        lineage = read_lineage(dataset.store.read(row.lineage), row.lineage).to_pylist()
        for number, origin in enumerate(lineage):
            tokens = tuple(shard.tokens(number).tolist())
            found.append((origin["document_id"], origin["source"], origin["row"], tokens))
    return found
