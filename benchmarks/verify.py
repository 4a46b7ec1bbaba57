"""How fast is a dataset verified?

    python -m benchmarks.verify [--gigabytes 1] [--document-tokens 600] [--compression none|zstd:3] [--threads 2] [--dataset DIR]

Writes a dataset of random tokens with real lineage (or takes one that is there), reads it once so that it is in the page
cache, and verifies it three times. GB/s is of stored shard bytes; beside it SHA-256 alone, over the same files with as
many threads, which no verification can pass.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import lineage_rows
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import SourceCounts, UnitRecord
from headrace.tokenize.publish import Job, publish
from headrace.tokenize.shard_writer import ShardWriter
from headrace.tokenize.verify import verify

_SHARD_BYTES = 64 << 20
_VOCABULARY = 100_000


def write_dataset(root: Path, total_bytes: int, document_tokens: int, compression: str) -> None:
    """Shards of 64 MB of uint32 tokens, one a unit."""
    config = TokenizeConfig(compression=compression)
    store, random = Store(root), np.random.default_rng(0)
    records = []
    for unit in range(max(1, total_bytes // _SHARD_BYTES)):
        count = (_SHARD_BYTES - 4096) // (4 * document_tokens + 13)
        lengths = random.integers(1, 2 * document_tokens, count)
        lengths = lengths[np.cumsum(4 * lengths + 13) < _SHARD_BYTES - 4096]
        # Small ids are frequent, so that compression has something to do.
        tokens = (random.random(int(lengths.sum())) ** 3 * _VOCABULARY).astype(np.uint32)
        count = len(lengths)
        hashes = np.frombuffer(random.bytes(16 * count), "V16")
        lineage = lineage_rows(
            source="made.parquet",
            row_group=unit,
            row=np.arange(count),
            byte_offset=None,
            document_id=pa.array([f"document-{unit}-{n}" for n in range(count)]),
            text_bytes=4 * lengths,
            tokens=lengths,
            text_hash=pa.array([h.tobytes() for h in hashes], pa.binary(16)),
        )
        level = config.zstd_level
        with ShardWriter(store, unit, dtype="uint32", shard_bytes=_SHARD_BYTES, zstd_level=level) as writer:
            writer.add(tokens, lengths, lineage)
            shards = writer.finish()
        counts = SourceCounts(
            file=0,
            rows=count,
            documents=count,
            tokens=int(lengths.sum()),
            text_bytes=int(4 * lengths.sum()),
        )
        records.append(
            UnitRecord(
                unit=unit,
                shards=tuple(shards),
                sources=(counts,),
                rejects={},
                rejects_file=None,
                examples=(),
            )
        )
    source = SourceFile(
        uri="made.parquet",
        name="made.parquet",
        format="parquet",
        size=1,
        fingerprint="0" * 64,
        num_rows=sum(record.total("rows") for record in records),
    )
    identity = TokenizerId(
        sha256=sha256_hex(b"{}"),
        name="random",
        library="none",
        vocab_size=_VOCABULARY,
        bos=None,
        bos_id=None,
        eos=None,
        eos_id=None,
        special_tokens="as-text",
    )
    job = Job(
        sources=(source,),
        tokenizer=b"{}",
        identity=identity,
        config=config,
        dtype="uint32",
        resolved={},
        inputs={},
        software={},
    )
    publish(store, job, records, 0.0)


def hash_files(paths: list[Path], threads: int) -> None:
    def one(path: Path) -> None:
        with open(path, "rb") as file:
            hashlib.file_digest(file, "sha256")

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, paths))


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of processors."""
    used, begun = os.times(), time.perf_counter()
    function()
    took, now = time.perf_counter() - begun, os.times()
    return took, now.user + now.system - used.user - used.system


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--document-tokens", type=int, default=600)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dataset", type=Path)
    args = parser.parse_args()
    made = None
    root = args.dataset
    if root is None:
        made = Path(tempfile.mkdtemp(prefix="headrace-verify-"))
        root = made / "dataset"
        write_dataset(root, int(args.gigabytes * 1e9), args.document_tokens, args.compression)
    try:
        dataset = Dataset.open(root)
        stored = int(dataset.shards.column("stored_bytes").sum())
        paths = [root / row.name for row in dataset.shards.rows()]
        hash_files(paths, args.threads)
        for name, function in (
            ("sha256", lambda: hash_files(paths, args.threads)),
            ("verify", lambda: verify(str(root), threads=args.threads)),
        ):
            times = [seconds(function) for _ in range(3)]
            clock, used = (statistics.median(values) for values in zip(*times, strict=True))
            print(
                f"{name}: {stored / clock / 1e9:.2f} GB/s, {stored / used / 1e9:.2f} GB per processor second"
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        documents = dataset.manifest.counts.documents
        print(
            f"{len(paths)} shards, {stored / 1e9:.2f} GB, {documents:,} documents; peak memory {peak:,.0f} MiB"
        )
    finally:
        if made is not None:
            shutil.rmtree(made)


if __name__ == "__main__":
    main()
