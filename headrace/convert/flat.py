"""Files that are one run of integers, and the four ways in which it is told where a document ends.

tokens   t t t t t t t t t t t t
Ends          |     |         |     a list of ends in a second file: Megatron, datatrove
Every      |     |     |     |      so many tokens each: a matrix, or --document-tokens
After            E       E          behind each separator: --split-after
Before           B       B          before each: --split-before
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.convert.token_file import (
    BATCH_TOKENS,
    MAX_DOCUMENT_TOKENS,
    SLICE_TOKENS,
    TEXT_BYTES_A_TOKEN,
    Documents,
    open_sized,
    read_at,
    require_planned,
)
from headrace.dataeng.mds import Lengths
from headrace.dataeng.sources.base import TOO_LARGE, Slice, SourceFile
from headrace.errors import InputError

_BLOCK: Final = 1 << 16  # documents whose lengths are in hand


class Borders(Protocol):
    """Where documents end in a run of tokens."""

    @property
    def uris(self) -> tuple[str, ...]:
        """Files of its own, if any."""
        ...

    def plan(self, run: Run, file: int) -> tuple[int | None, tuple[Slice, ...]]:
        """How many documents there are (None: known once they are read), and the slices."""
        ...

    def read(self, run: Run, tokens: BinaryIO, part: Slice) -> Iterator[Documents]:
        """See `TokenFile.read`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """`count` integers from byte `begin` of a file on. `where` is its name for messages."""

    uri: str
    where: str
    dtype: str  # NumPy's, with byte order
    begin: int
    count: int

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    def byte(self, token: int) -> int:
        """Where a token lies in the file."""
        return self.begin + token * self.itemsize

    def token(self, byte: int) -> int:
        """The inverse of `byte`."""
        return (byte - self.begin) // self.itemsize


@dataclass(frozen=True, kw_only=True, slots=True)
class FlatFile:
    """A `TokenFile` of one run."""

    source: SourceFile
    run: Run
    borders: Borders

    def read(self, part: Slice) -> Iterator[Documents]:
        source = self.source
        require_planned(source.name, source.fingerprint, source.format, self.run.uri, *self.borders.uris)
        file, _ = open_sized(self.run.uri)
        with file:
            yield from self.borders.read(self.run, file, part)


def require_whole(where: str, size: int, begin: int, itemsize: int) -> int:
    """How many integers a file of `size` bytes holds behind byte `begin`. Raises InputError if not a whole number."""
    body = size - begin
    if body <= 0 or body % itemsize:
        raise InputError(
            f"{where}: {max(body, 0):,} bytes of tokens, which is not one or more integers of {itemsize} bytes; the file is "
            "empty, cut short, or of another type"
        )
    return body // itemsize


def cut(
    file: int, starts: Iterable[NDArray[np.int64]], total: int, byte: int, itemsize: int
) -> Iterator[Slice]:
    """Slices of about SLICE_TOKENS, each of whole documents. starts: the first token of each document, ascending, in
    blocks; total: tokens in all; byte: where token 0 lies.
    """
    row, first_row, first_token = 0, 0, 0

    def slice_to(end_row: int, end_token: int) -> Slice:
        return Slice(
            file=file,
            first_row=first_row,
            num_rows=end_row - first_row,
            text_bytes=(end_token - first_token) * TEXT_BYTES_A_TOKEN,
            byte_offset=byte + first_token * itemsize,
            byte_end=byte + end_token * itemsize,
        )

    for block in starts:
        at = 0
        while True:
            # The first document that begins a whole slice or more behind the open one, or as many documents behind.
            by_tokens = at + int(np.searchsorted(block[at:], first_token + SLICE_TOKENS, side="left"))
            found = min(by_tokens, first_row + SLICE_TOKENS - row)
            if found >= len(block):
                break
            yield slice_to(row + found, int(block[found]))
            first_row, first_token, at = row + found, int(block[found]), found
        row += len(block)
    if row > first_row:
        yield slice_to(row, total)


def read_lengths(run: Run, tokens: BinaryIO, part: Slice, lengths: Iterable[Lengths]) -> Iterator[Documents]:
    """The documents of a slice, from their lengths in order, in blocks."""
    assert part.byte_offset is not None
    row, at = part.first_row, part.byte_offset
    for block in lengths:
        ends = np.cumsum(block)
        begin = 0
        while begin < len(block):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + BATCH_TOKENS, side="right")))
            some = block[begin:end]
            count = int(some.sum())
            offsets = at + (np.cumsum(some) - some) * run.itemsize
            too_large = count > MAX_DOCUMENT_TOKENS  # then it is one document
            yield Documents(
                first_row=row,
                tokens=read_at(tokens, at, 0 if too_large else count, run.dtype, run.where),
                lengths=some,
                byte_offsets=offsets,
                reason=TOO_LARGE if too_large else None,
            )
            row, at, begin = row + len(some), at + count * run.itemsize, end


@dataclass(frozen=True, slots=True)
class Every:
    """Documents of `length` tokens; the last may be shorter."""

    length: int

    @property
    def uris(self) -> tuple[str, ...]:
        return ()

    def plan(self, run: Run, file: int) -> tuple[int | None, tuple[Slice, ...]]:
        documents = -(-run.count // self.length)
        starts = (
            np.arange(first, min(first + _BLOCK, documents), dtype=np.int64) * self.length
            for first in range(0, documents, _BLOCK)
        )
        return documents, tuple(cut(file, starts, run.count, run.begin, run.itemsize))

    def read(self, run: Run, tokens: BinaryIO, part: Slice) -> Iterator[Documents]:
        assert part.byte_offset is not None
        assert part.num_rows is not None
        left = min(part.num_rows * self.length, run.count - run.token(part.byte_offset))

        def lengths() -> Iterator[Lengths]:
            tokens_left, rows_left = left, part.num_rows or 0
            while rows_left:
                block = np.full(min(rows_left, _BLOCK), self.length, np.int64)
                block[-1] = min(self.length, tokens_left - self.length * (len(block) - 1))
                rows_left, tokens_left = rows_left - len(block), tokens_left - int(block.sum())
                yield block

        yield from read_lengths(run, tokens, part, lengths())


@dataclass(frozen=True, slots=True)
class Separated:
    """A document ends behind each token `separator`, or with `before` it begins with one. The separators are kept.

    Where documents begin is known once the file is read. A slice is a range of tokens, and has the documents that begin
    in it; the last is read to its end, wherever that is.
    """

    separator: int
    before: bool = False

    @property
    def uris(self) -> tuple[str, ...]:
        return ()

    def plan(self, run: Run, file: int) -> tuple[int | None, tuple[Slice, ...]]:
        return None, tuple(
            Slice(
                file=file,
                row_group=number,
                num_rows=None,
                text_bytes=(min(first + SLICE_TOKENS, run.count) - first) * TEXT_BYTES_A_TOKEN,
                byte_offset=run.byte(first),
                byte_end=run.byte(min(first + SLICE_TOKENS, run.count)),
            )
            for number, first in enumerate(range(0, run.count, SLICE_TOKENS))
        )

    def read(self, run: Run, tokens: BinaryIO, part: Slice) -> Iterator[Documents]:
        assert part.byte_offset is not None
        assert part.byte_end is not None
        begin, end = run.token(part.byte_offset), run.token(part.byte_end)
        starts = self._starts(run, tokens, begin, end)
        if not len(starts):
            return
        last = self._end_of(run, tokens, end, int(starts[-1]))
        lengths = np.diff(starts, append=last)
        whole = Slice(
            file=part.file, num_rows=len(starts), text_bytes=0, byte_offset=run.byte(int(starts[0]))
        )
        yield from read_lengths(run, tokens, whole, [lengths])

    def _starts(self, run: Run, tokens: BinaryIO, begin: int, end: int) -> NDArray[np.int64]:
        """First tokens of the documents that begin from token `begin` up to `end`."""
        shift = 0 if self.before else 1
        first = max(0, begin - shift)
        window = read_at(tokens, run.byte(first), end - first, run.dtype, run.where)
        found = np.flatnonzero(window == self.separator) + first + shift
        found = found[(found >= begin) & (found < end)]
        if begin == 0 and (not len(found) or found[0] != 0):
            found = np.concatenate([[0], found])
        return found.astype(np.int64, copy=False)

    def _end_of(self, run: Run, tokens: BinaryIO, at: int, start: int) -> int:
        """Where the document that begins at `start` ends, of which it is known that it goes on to token `at`."""
        while at < run.count and at - start <= MAX_DOCUMENT_TOKENS:
            end = min(at + BATCH_TOKENS, run.count)
            if len(starts := self._starts(run, tokens, at, end)):
                return int(starts[0])
            at = end
        return at  # the end of the file, or so far that the document is rejected
