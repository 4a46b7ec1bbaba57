"""A dataset as Megatron's `.bin` and `.idx`: byte for byte what its own builder writes of the same documents.

Both files are written once, from the first byte to the last, in the memory of one shard: how many documents there are is
known beforehand, so each table of the index has its place. The index is named last: without it nobody opens the `.bin`.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from headrace.convert.megatron import DTYPES, HEADER, MAGIC, VERSION
from headrace.dataeng.cache import NodeCache
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import Lengths, Tokens
from headrace.dataeng.shards import Shard
from headrace.dataeng.storage import Store, sync_directory
from headrace.dataeng.uris import is_remote, redact
from headrace.errors import IncompleteError, InputError, UsageError

_UINT16_BELOW: Final = 65500  # vocabularies for which Megatron chooses uint16; else int32
_MAX_INT32: Final = 2**31 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """dtype: of the ids in the `.bin`. bytes: of both files."""

    documents: int
    tokens: int
    dtype: str
    bytes: int


def export_megatron(dataset: Dataset, prefix: str) -> Exported:
    """Writes `prefix`.bin and `prefix`.idx.

    Raises:
        UsageError: the files are there already, or `prefix` is not a local path.
        InputError: a document of more tokens than an int32 counts, or an id that is none.
        DamageError: a shard is not what it was; nothing is left behind.
        IncompleteError: another process is writing them.
    """
    if is_remote(prefix):
        raise UsageError(
            f"{redact(prefix)}: Megatron maps its files from a local path; give one, and copy the two files"
        )
    root = Store(prefix.removesuffix(".idx").removesuffix(".bin")).local_root.absolute()
    final = _Pair.of(root, "")
    temporary = _Pair.of(root, ".tmp-export-")
    root.parent.mkdir(parents=True, exist_ok=True)
    with _only_writer(temporary.idx):
        # A .bin without .idx is ours if a run was killed between the two names: it left the .idx and no .bin to be named.
        half_named = temporary.idx.stat().st_size > 0 and not temporary.bin.exists()
        if final.idx.exists() or (final.bin.exists() and not half_named):
            temporary.idx.unlink()
            raise UsageError(
                f"{final.idx if final.idx.exists() else final.bin} is there already; nothing was changed. Give another "
                "--out, or remove it"
            )
        try:
            exported = _write(dataset, temporary)
        except BaseException:
            if half_named:
                final.bin.unlink(missing_ok=True)
            temporary.bin.unlink(missing_ok=True)
            temporary.idx.unlink(missing_ok=True)
            raise
        os.replace(temporary.bin, final.bin)
        sync_directory(root.parent)
        os.replace(temporary.idx, final.idx)
        sync_directory(root.parent)
    return exported


@dataclass(frozen=True, slots=True)
class _Pair:
    bin: Path
    idx: Path

    @classmethod
    def of(cls, root: Path, before: str) -> _Pair:
        return cls(*(root.parent / f"{before}{root.name}.{kind}" for kind in ("bin", "idx")))


def megatron_dtype(vocab_size: int) -> str:
    """The type that Megatron's preprocessing writes for a vocabulary."""
    return "uint16" if vocab_size < _UINT16_BELOW else "int32"


def _write(dataset: Dataset, pair: _Pair) -> Exported:
    counts = dataset.manifest.counts
    dtype = megatron_dtype(dataset.manifest.tokenizer.vocab_size)
    code = next(code for code, name in DTYPES.items() if name == dtype)
    cache = NodeCache(dataset)
    itemsize = np.dtype(dtype).itemsize
    with open(pair.bin, "wb") as tokens, open(pair.idx, "wb") as index:
        index.write(HEADER.pack(MAGIC, VERSION, code, counts.documents, counts.documents + 1))
        tables = _Tables(index, counts.documents)
        written = 0
        for number in range(dataset.shards.num_shards):
            row = dataset.shards.row(number)
            where = dataset.store.describe(row.name)
            shard = Shard.map(cache.path(row), row, dataset.manifest.dtype, where)
            ends = shard.ends.astype(np.int64)
            lengths = np.diff(ends, prepend=0)
            ids = _ids(shard, lengths)
            if int(lengths.max()) > _MAX_INT32 or int(ids.max()) > _MAX_INT32:
                raise InputError(f"{where}: a document or an id that Megatron's int32 cannot hold")
            tokens.write(ids.astype(f"<{np.dtype(dtype).str[1:]}", copy=False).data)
            tables.add(lengths, written * itemsize, itemsize)
            written += len(ids)
        tables.finish()
        for file in (tokens, index):
            file.flush()
            os.fsync(file.fileno())
        size = tokens.seek(0, 2) + index.seek(0, 2)
    return Exported(documents=counts.documents, tokens=written, dtype=dtype, bytes=size)


def _ids(shard: Shard, lengths: Lengths) -> Tokens:
    """All tokens of a shard, document after document."""
    from headrace.kernels.columns import copy_ranges

    count = len(lengths)
    ends = shard.file[8 : 8 + 4 * count].view("<u4").astype(np.int64)
    values = np.empty(int(lengths.sum()) * shard.itemsize, np.uint8)
    copy_ranges(shard.file, ends - lengths * shard.itemsize, ends, values)
    ids: Any = values.view(f"<u{shard.itemsize}")
    return ids  # type: ignore[no-any-return]


class _Tables:
    """The three tables of the index, each filled from its own place on. `documents`: how many there will be."""

    def __init__(self, file: BinaryIO, documents: int) -> None:
        self._file, self._documents, self._row = file, documents, 0

    def add(self, lengths: Lengths, byte: int, itemsize: int) -> None:
        """The next documents, the first of which begins at `byte` of the .bin."""
        pointers = byte + (np.cumsum(lengths) - lengths) * itemsize
        borders = np.arange(self._row, self._row + len(lengths), dtype="<i8")
        self._put(4 * self._row, lengths.astype("<i4"))
        self._put(4 * self._documents + 8 * self._row, pointers.astype("<i8"))
        self._put(12 * self._documents + 8 * self._row, borders)
        self._row += len(lengths)

    def finish(self) -> None:
        assert self._row == self._documents  # the shard table, whose hash was checked, said so
        self._put(20 * self._documents, np.array([self._documents], "<i8"))

    def _put(self, at: int, values: Any) -> None:
        self._file.seek(HEADER.size + at)
        self._file.write(values.data)


@contextmanager
def _only_writer(path: Path) -> Iterator[None]:
    """Holds the temporary file for one process; the kernel lets go of it however that ends."""
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = os.path.samestat(os.fstat(file.fileno()), path.stat())
        except (BlockingIOError, FileNotFoundError):
            alone = False
        if not alone:
            raise IncompleteError(f"{path}: another process is exporting to this name; wait for it to end")
        yield
