"""Shards as one zstd frame, or as frames of so many bytes each, which can be unpacked from anywhere.

    python -m benchmarks.zstd_blocks DATASET      an uncompressed dataset; its first shards are packed in memory

docs/decisions/0091-zstd-blocks.md has what came of it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise

import numpy as np
import zstandard

from headrace.dataeng.dataset import Dataset

BLOCKS = (0, 64 << 10, 256 << 10, 1 << 20, 4 << 20)  # 0: one frame
LEVELS = (3, 9)
_PICKED = 40
_SEEK_TABLE = (17, 12)  # bytes in all, and a frame: zstd's seekable format


def measure(raw: bytes, level: int, block: int) -> dict[str, float]:
    """ratio; MB/s of processor time, raw; ms and KB to get at one document, the median."""
    packer = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    unpacker = zstandard.ZstdDecompressor()
    begin = time.process_time()
    frames = [
        packer.compress(raw[at : at + (block or len(raw))]) for at in range(0, len(raw), block or len(raw))
    ]
    packing = time.process_time() - begin
    stored = sum(map(len, frames)) + (_SEEK_TABLE[0] + _SEEK_TABLE[1] * len(frames) if block else 0)
    unpacking = []
    for _ in range(5):
        begin = time.process_time()
        for frame in frames:
            unpacker.decompress(frame)
        unpacking.append(time.process_time() - begin)
    offsets = np.frombuffer(raw, "<u4", int(np.frombuffer(raw, "<u4", 1)[0]) + 1, 4).tolist()
    documents = list(pairwise(offsets))
    finding = []
    for number in np.random.default_rng(1).integers(0, len(documents), _PICKED).tolist():
        first, last = documents[number]
        begin = time.process_time()
        if block:
            for frame in frames[first // block : (last - 1) // block + 1]:
                unpacker.decompress(frame)
        else:
            unpacker.stream_reader(frames[0]).read(last)
        finding.append(time.process_time() - begin)
    return {
        "ratio": len(raw) / stored,
        "pack": len(raw) / packing / 1e6,
        "unpack": len(raw) / min(unpacking) / 1e6,
        "ms": 1e3 * statistics.median(finding),
        "kb": stored / len(frames) / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--shards", type=int, default=1)
    args = parser.parse_args()
    dataset = Dataset.open(args.dataset)
    if dataset.manifest.compression != "none":
        raise SystemExit(f"{args.dataset}: give a dataset without compression")
    print("level  block KiB  ratio  pack MB/s  unpack MB/s  a document: ms  KB fetched")
    for row in dataset.shards.rows()[: args.shards]:
        raw = dataset.store.read(row.name)
        for level in LEVELS:
            for block in BLOCKS:
                found = measure(raw, level, block)
                print(
                    f"{level:5}  {block >> 10 or 'one':>9}  {found['ratio']:5.2f}  {found['pack']:9,.0f}  "
                    f"{found['unpack']:11,.0f}  {found['ms']:14.2f}  {found['kb']:10,.0f}"
                )


if __name__ == "__main__":
    main()
