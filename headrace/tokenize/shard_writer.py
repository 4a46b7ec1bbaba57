"""Cut the documents of a unit into shards and store each with its lineage as soon as it is full."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from headrace.dataeng import mds
from headrace.dataeng.lineage import LineageWriter
from headrace.dataeng.mds import Lengths, Tokens
from headrace.dataeng.storage import Store
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow


class ShardWriter:
    """The shards of one unit, each packed, hashed and stored by a thread while documents of the next arrive.

    At most one full shard waits, so memory is that of two. Use as a context manager, and call `finish` for the rows.
    """

    def __init__(
        self, store: Store, unit: int, *, dtype: str, shard_bytes: int, zstd_level: int | None
    ) -> None:
        self._store, self._unit, self._dtype = store, unit, dtype
        self._shard_bytes, self._zstd_level = shard_bytes, zstd_level
        self._capacity = shard_bytes - mds.overhead_bytes(0, dtype, shard_bytes)
        self._closed: list[Future[ShardRow]] = []
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shard")
        self._open()

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _open(self) -> None:
        self._tokens: list[Tokens] = []
        self._lengths: list[Lengths] = []
        self._lineage = LineageWriter()
        self._filled = 0

    def fits_a_shard(self, lengths: Lengths) -> Any:
        """Which documents (bool [documents]) fit the 32-bit offsets of a shard of their own."""
        limit = mds.MAX_RAW_BYTES - mds.overhead_bytes(1, self._dtype, self._shard_bytes)
        return mds.sample_bytes(lengths, self._dtype) <= limit

    def add(self, tokens: Tokens, lengths: Lengths, lineage: Any) -> None:
        """Documents in order: tokens [sum of lengths], lengths [documents] of 1 or more, lineage as a RecordBatch."""
        ends = np.cumsum(mds.sample_bytes(lengths, self._dtype) + 4)  # 4: the entry in the offset table
        token_ends = np.concatenate([[0], np.cumsum(lengths)])
        begin = 0
        while begin < len(lengths):
            before = int(ends[begin - 1]) if begin else 0
            room = before + self._capacity - self._filled
            end = max(begin, int(np.searchsorted(ends, room, side="right")))
            if end == begin and not self._lengths:
                end = begin + 1  # larger than any shard: one of its own
            if end > begin:
                self._tokens.append(tokens[token_ends[begin] : token_ends[end]])
                self._lengths.append(lengths[begin:end])
                self._lineage.add(lineage.slice(begin, end - begin))
                self._filled += int(ends[end - 1]) - before
            if end < len(lengths):
                self._close()
            begin = end

    def finish(self) -> list[ShardRow]:
        """Stores the last shard and waits for all."""
        if self._lengths:
            self._close()
        return [closed.result() for closed in self._closed]

    def _close(self) -> None:
        if self._closed:
            self._closed[-1].result()  # one at a time; and what went wrong is raised here
        self._closed.append(
            self._thread.submit(
                self._store_shard,
                len(self._closed),
                self._tokens,
                np.concatenate(self._lengths),
                self._lineage,
            )
        )
        self._open()

    def _store_shard(
        self, number: int, parts: list[Tokens], lengths: Lengths, lineage: LineageWriter
    ) -> ShardRow:
        raw = mds.shard_buffer(parts, lengths, self._shard_bytes).data
        stem = f"shard.{self._unit:06d}-{number:03d}"
        stored: bytes | memoryview = raw
        name = f"{stem}.mds"
        raw_sha256 = sha256_hex(raw)
        if self._zstd_level is not None:
            stored, name = compress(raw, self._zstd_level), f"{stem}.mds.zstd"
        where_from, lineage_name = lineage.finish(), f"{stem}.lineage.parquet"
        self._store.write(lineage_name, where_from)
        self._store.write(name, stored)
        return ShardRow(
            unit=self._unit,
            name=name,
            raw_bytes=len(raw),
            raw_sha256=raw_sha256,
            stored_bytes=len(stored),
            stored_sha256=raw_sha256 if stored is raw else sha256_hex(stored),
            documents=len(lengths),
            tokens=int(lengths.sum()),
            lineage=lineage_name,
            lineage_sha256=sha256_hex(where_from),
        )


def compress(raw: bytes | memoryview, level: int) -> bytes:
    """One zstd frame with its content size and a checksum, the same bytes for the same version of zstd."""
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True).compress(raw)
