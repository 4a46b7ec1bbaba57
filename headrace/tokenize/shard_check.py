"""Hold one shard to what the shard table says of it: bytes, structure, token ids, lineage.

    stored file ──sha256──> unpacked ──sha256──> samples, ids ──lengths──> lineage

Each thread reads into buffers of its own, which it keeps: a shard is read, hashed and walked through without fresh
memory, which would cost as much as the hash.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.dataeng import mds
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import read_lineage
from headrace.dataeng.storage import Store
from headrace.errors import DamageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.suspects import Suspects

_READ_BYTES = 1 << 20  # at a time: hashed while it is in the processor's cache
_SALVAGE_BYTES = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One file that is not what it was.

    num_documents: how many documents it makes doubtful; documents: those, as lineage rows, or the first of them.
    """

    file: str
    problem: str
    num_documents: int = 0
    documents: list[dict[str, Any]] = field(default_factory=list)


class _Buffers(threading.local):
    """Of one thread."""

    def __init__(self) -> None:
        self._held: dict[str, bytearray] = {}

    def get(self, name: str, size: int) -> memoryview:
        held = self._held.get(name)
        if held is None or len(held) < size:
            self._held.pop(name, None)
            held = self._held[name] = bytearray(size)
        return memoryview(held)[:size]


class ShardChecker:
    """Checks shards of one dataset; any number of threads may share it."""

    def __init__(self, dataset: Dataset, *, name_documents: bool = True) -> None:
        self._dataset = dataset
        self._name_documents = name_documents
        self._suspects = Suspects(dataset)
        self._buffers = _Buffers()

    def check(self, index: int) -> list[Problem]:
        """What is wrong with the shard number `index` and its lineage."""
        row = self._dataset.shards.row(index)
        problems: list[Problem] = []
        lineage = self._lineage(row, problems)
        try:
            stored, problem = _read(self._dataset.store, row, self._buffers)
        except FileNotFoundError:
            return [*problems, self._damaged(row, "missing", None, lineage)]
        raw: memoryview = stored
        if row.name.endswith(".zstd"):
            raw, trouble = unpack(stored, self._buffers.get("raw", row.raw_bytes))
            trouble = trouble or _differing("unpacked, SHA-256 is", sha256_hex(raw), row.raw_sha256)
            if problem is not None and trouble is None:
                problem += "; what it unpacks to is as it was"
                return [*problems, Problem(file=row.name, problem=problem)]
            problem = problem or trouble
        elif (row.raw_bytes, row.raw_sha256) != (row.stored_bytes, row.stored_sha256):
            problem = problem or "not compressed, yet the shard table gives two sizes or hashes for it"
        if problem is not None:
            return [*problems, self._damaged(row, problem, raw, lineage)]
        return problems + self._content_problems(row, raw, lineage)

    def _content_problems(self, row: ShardRow, raw: memoryview, lineage: bytes | None) -> list[Problem]:
        manifest = self._dataset.manifest
        try:
            lengths = mds.check_shard(
                raw,
                dtype=manifest.dtype,
                shard_bytes=manifest.shard_bytes,
                vocab_size=manifest.tokenizer.vocab_size,
                where=row.name,
            )
        except DamageError as error:
            return [self._damaged(row, str(error), None, lineage)]
        if len(lengths) != row.documents or int(lengths.sum()) != row.tokens:
            return [
                Problem(file=row.name, problem="its documents or tokens are not as many as the table says")
            ]
        if lineage is None:
            return []
        try:
            told = read_lineage(lineage, row.lineage, ["tokens"])["tokens"].to_numpy()
        except DamageError as error:
            return [Problem(file=row.lineage, problem=str(error))]
        if not np.array_equal(told, lengths):
            return [Problem(file=row.lineage, problem="its lengths are not those of the shard's documents")]
        return []

    def _lineage(self, row: ShardRow, problems: list[Problem]) -> bytes | None:
        """The shard's lineage file if it is intact, else None and a problem."""
        problem: str | None = "missing"
        try:
            data = self._dataset.store.read(row.lineage)
            problem = _differing("SHA-256 is", sha256_hex(data), row.lineage_sha256)
            if problem is None:
                return data
        except FileNotFoundError:
            pass
        problem = f"{problem}; where the {row.documents:,} documents of {row.name} came from cannot be told"
        problems.append(Problem(file=row.lineage, problem=problem))
        return None

    def _damaged(self, row: ShardRow, problem: str, raw: memoryview | None, lineage: bytes | None) -> Problem:
        """raw: what there is of the shard, if it is worth a look."""
        if not self._name_documents:
            return Problem(file=row.name, problem=problem, num_documents=row.documents)
        table = None
        if lineage is not None:
            try:
                table = read_lineage(lineage, row.lineage)
            except DamageError as error:
                problem += f"; {error}"
        if table is None:
            problem += f"; it holds {row.documents:,} documents, which only the lineage names"
            return Problem(file=row.name, problem=problem, num_documents=row.documents)
        found = self._suspects.among(row, raw, table)
        if found.remark:
            problem += f"; {found.remark}"
        return Problem(
            file=row.name, problem=problem, num_documents=len(found.numbers), documents=found.rows(table)
        )


def _read(store: Store, row: ShardRow, buffers: _Buffers) -> tuple[memoryview, str | None]:
    """The stored file, of a local one never more than is recorded; and what is wrong with its size or hash."""
    if not store.is_local:
        data = store.read(row.name)
        return memoryview(data), differs(data, row.stored_bytes, row.stored_sha256)
    digest = hashlib.sha256()
    with open(store.local_path(row.name), "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        wanted = min(size, row.stored_bytes)
        buffer = buffers.get("stored", wanted)
        read = 0
        while read < wanted and (count := file.readinto(buffer[read : min(wanted, read + _READ_BYTES)])):
            digest.update(buffer[read : read + count])
            read += count
    if (found := size if read == wanted else read) != row.stored_bytes:
        return buffer[:read], _other_size(found, row.stored_bytes)
    return buffer, _differing("SHA-256 is", digest.hexdigest(), row.stored_sha256)


def differs(data: bytes, num_bytes: int, sha256: str) -> str | None:
    """How `data` differs from what was recorded of it, in words."""
    if len(data) != num_bytes:
        return _other_size(len(data), num_bytes)
    return _differing("SHA-256 is", sha256_hex(data), sha256)


def _other_size(found: int, written: int) -> str:
    return f"{found:,} bytes, {written:,} were written"


def _differing(what: str, found: str, written: str) -> str | None:
    return None if found == written else f"{what} {found[:16]}..., {written[:16]}... was written"


def unpack(stored: bytes | memoryview, into: memoryview) -> tuple[memoryview, str | None]:
    """As much of a zstd shard as can be unpacked, never more than `into` holds, and why that is not all of it."""
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True)
    written = 0
    try:
        while written < len(into) and (count := reader.readinto(into[written:])):
            written += count
        more = written == len(into) and bool(reader.read(1))
    except zstandard.ZstdError as error:
        written = _salvage(stored, into)
        return into[:written], f"zstd cannot unpack it behind byte {written:,} ({error})"
    if written < len(into) or more:
        found = f"more than {len(into):,}" if more else f"{written:,}"
        return into[:written], f"unpacks to {found} bytes, {len(into):,} were packed"
    return into, None


def _salvage(stored: bytes | memoryview, into: memoryview) -> int:
    """Unpacks up to the block that cannot be, and returns how many bytes that gave.

    A call that fails gives nothing of what it had unpacked, so they are short, and at the frame's checksum shortest.
    """
    import zstandard

    unpacker, written, tail = zstandard.ZstdDecompressor().decompressobj(), 0, len(stored) - 8
    try:
        begin = 0
        while begin < len(stored) and written < len(into):
            end = min(begin + _SALVAGE_BYTES, tail) if begin < tail else begin + 1
            some = unpacker.decompress(bytes(stored[begin:end]))[: len(into) - written]
            into[written : written + len(some)] = some
            written, begin = written + len(some), end
    except zstandard.ZstdError:
        pass
    return written
