r"""Megatron's `.bin` and `.idx`, read: docs/formats/megatron.md says every byte.

    .idx = "MMIDIDX\0\0" | version u64 | dtype u8 | sequences u64 | borders u64
         | lengths i32[sequences] | pointers i64[sequences] | borders i64[borders] | modes i8[sequences], or nothing

The index may be gigabytes and is not believed: it is walked through in blocks, and every number is held to the others
and to the sizes of both files before a token is read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from headrace.convert.flat import FlatFile, Run, cut, read_lengths
from headrace.convert.token_file import Documents, fingerprint, integer_dtype, open_sized, read_at
from headrace.dataeng.mds import Lengths
from headrace.dataeng.sources.base import Slice, SourceFile
from headrace.dataeng.uris import redact
from headrace.errors import InputError

MAGIC: Final = b"MMIDIDX\0\0"
VERSION: Final = 1
HEADER: Final = struct.Struct("<9sQBQQ")
DTYPES: Final = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float64",
    7: "float32",
    8: "uint16",
}
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """An index whose header fits its file. It is also the `Borders` of its run."""

    uri: str
    where: str
    dtype: str
    sequences: int
    borders: int  # one more than documents

    @classmethod
    def open(cls, file: BinaryIO, size: int, uri: str, where: str) -> Index:
        """Raises InputError for what is no index, or has not the size that its own counts give."""
        if size < HEADER.size:
            raise InputError(f"{where}: {size:,} bytes, shorter than the header of a Megatron index")
        file.seek(0)
        magic, version, code, sequences, borders = HEADER.unpack(file.read(HEADER.size))
        if magic != MAGIC or version != VERSION:
            raise InputError(
                f"{where}: not a Megatron index of version {VERSION} (it begins with {magic!r}, version {version:,})"
            )
        if code not in DTYPES:
            raise InputError(f"{where}: dtype code {code}; expected 1 to 8, so the index is refused")
        fixed = HEADER.size + 12 * sequences + 8 * borders
        if size not in (fixed, fixed + sequences) or not sequences or borders < 2:
            raise InputError(
                f"{where}: {size:,} bytes, but {sequences:,} sequences and {borders:,} document borders take {fixed:,} "
                f"(with modes {fixed + sequences:,}); the index is cut short or damaged, and is refused"
            )
        index = cls(
            uri=uri,
            where=where,
            dtype=integer_dtype(DTYPES[code], where),
            sequences=sequences,
            borders=borders,
        )
        if size > fixed:
            index._require_text(file, fixed)
        return index

    @property
    def uris(self) -> tuple[str, ...]:
        return (self.uri,)

    def plan(self, run: Run, file: int) -> tuple[int | None, tuple[Slice, ...]]:
        index, _ = open_sized(self.uri)
        with index:
            self._check_sequences(index, run)
            starts = self._document_starts(index)
            return self.borders - 1, tuple(cut(file, starts, run.count, run.begin, run.itemsize))

    def read(self, run: Run, tokens: BinaryIO, part: Slice) -> Iterator[Documents]:
        index, _ = open_sized(self.uri)
        with index:
            yield from read_lengths(run, tokens, part, self._lengths(index, run, part))

    def _lengths(self, index: BinaryIO, run: Run, part: Slice) -> Iterator[Lengths]:
        assert part.num_rows is not None
        assert part.byte_end is not None
        for first in range(part.first_row, part.first_row + part.num_rows, _BLOCK):
            count = min(_BLOCK, part.first_row + part.num_rows - first)
            borders = self._borders(index, first, count + 1)
            starts = self._starts(index, borders, run.count, run.itemsize)
            yield np.diff(starts)

    def _check_sequences(self, index: BinaryIO, run: Run) -> None:
        """Each sequence begins where the one before ends, and the last at the end of the tokens."""
        at = 0
        for first in range(0, self.sequences, _BLOCK):
            count = min(_BLOCK, self.sequences - first)
            lengths = read_at(index, HEADER.size + 4 * first, count, "<i4", self.where).astype(np.int64)
            if int(lengths.min()) < 0:
                raise self._refused(
                    f"sequence {first + int(np.argmin(lengths)):,} has {int(lengths.min()):,} tokens"
                )
            pointers = self._pointers(index, first, count)
            wanted = at + (np.cumsum(lengths) - lengths) * run.itemsize
            if not np.array_equal(pointers, wanted):
                bad = int(np.flatnonzero(pointers != wanted)[0])
                raise self._refused(
                    f"sequence {first + bad:,} begins at byte {int(pointers[bad]):,}, and the one before ends at "
                    f"{int(wanted[bad]):,}"
                )
            at += int(lengths.sum()) * run.itemsize
        if at != run.count * run.itemsize:
            raise self._refused(
                f"its sequences take {at:,} bytes, and {run.where} has {run.count * run.itemsize:,}"
            )

    def _document_starts(self, index: BinaryIO) -> Iterator[NDArray[np.int64]]:
        """The first token of each document, in blocks, each border checked."""
        before = 0
        itemsize = np.dtype(self.dtype).itemsize
        for first in range(0, self.borders, _BLOCK):
            count = min(_BLOCK, self.borders - first)
            borders = self._borders(index, first, count)
            last = first + count == self.borders
            if (
                (first == 0 and borders[0] != 0)
                or int(borders[0]) < before
                or (np.diff(borders) < 0).any()
                or int(borders[-1]) > self.sequences
                or (last and int(borders[-1]) != self.sequences)
            ):
                raise self._refused(
                    f"its borders of documents {first:,} to {first + count - 1:,} do not ascend from sequence 0 to "
                    f"{self.sequences:,}"
                )
            before = int(borders[-1])
            starts = borders[:-1] if last else borders
            if len(starts):
                yield self._starts(index, starts, None, itemsize)

    def _starts(
        self, index: BinaryIO, borders: NDArray[np.int64], total: int | None, itemsize: int
    ) -> NDArray[np.int64]:
        """The token at which the sequence behind each border begins; `total` behind the last."""
        low = int(borders[0])
        # Sequences of a document may be many; read as they lie, and pick.
        high = min(int(borders[-1]) + 1, self.sequences)
        starts = np.empty(len(borders), np.int64)
        for first in range(low, high, _BLOCK):
            count = min(_BLOCK, high - first)
            pointers = self._pointers(index, first, count)
            inside = (borders >= first) & (borders < first + count)
            starts[inside] = pointers[borders[inside] - first] // itemsize
        behind = borders >= self.sequences
        if behind.any():
            starts[behind] = self._end(index, itemsize) if total is None else total
        return starts

    def _end(self, index: BinaryIO, itemsize: int) -> int:
        last = self.sequences - 1
        length = int(read_at(index, HEADER.size + 4 * last, 1, "<i4", self.where)[0])
        return int(self._pointers(index, last, 1)[0]) // itemsize + length

    def _pointers(self, index: BinaryIO, first: int, count: int) -> NDArray[np.int64]:
        at = HEADER.size + 4 * self.sequences + 8 * first
        return read_at(index, at, count, "<i8", self.where).astype(np.int64, copy=False)

    def _borders(self, index: BinaryIO, first: int, count: int) -> NDArray[np.int64]:
        at = HEADER.size + 12 * self.sequences + 8 * first
        return read_at(index, at, count, "<i8", self.where).astype(np.int64, copy=False)

    def _require_text(self, index: BinaryIO, at: int) -> None:
        for first in range(0, self.sequences, 16 * _BLOCK):
            count = min(16 * _BLOCK, self.sequences - first)
            modes = read_at(index, at + first, count, "i1", self.where)
            if modes.any():
                raise self._refused(
                    f"sequence {first + int(np.flatnonzero(modes)[0]):,} is of another mode than text, which would be lost"
                )

    def _refused(self, problem: str) -> InputError:
        return InputError(f"{self.where}: {problem}; the index is damaged or of another kind, and is refused")


def open_file(prefix: str, file: int) -> FlatFile:
    """`prefix`.bin as `prefix`.idx tells it. Raises InputError."""
    uri, index_uri = f"{prefix}.bin", f"{prefix}.idx"
    opened, size = open_sized(index_uri)
    with opened:
        index = Index.open(opened, size, index_uri, redact(index_uri))
    opened, size = open_sized(uri)
    opened.close()
    itemsize = np.dtype(index.dtype).itemsize
    if size % itemsize:
        raise InputError(
            f"{redact(uri)}: {size:,} bytes, not whole integers of {itemsize} bytes; it is cut short or not the index's"
        )
    run = Run(
        uri=uri,
        where=redact(uri),
        dtype=np.dtype(index.dtype).newbyteorder("<").str,
        begin=0,
        count=size // itemsize,
    )
    rows, slices = index.plan(run, file)
    source = SourceFile(
        uri=uri,
        name=redact(uri),
        format="megatron",
        size=size,
        fingerprint=fingerprint("megatron", uri, index_uri),
        num_rows=rows,
        slices=slices,
    )
    return FlatFile(source=source, run=run, borders=index)
