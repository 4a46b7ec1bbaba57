"""Cut a stream of bytes into lines: at line feeds only, in memory that one line and one chunk bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

_READ_BYTES: Final = 1 << 20


class Line(NamedTuple):
    """Where a line begins and where the next one would; `data`, without the line feed, is None if it is too long."""

    offset: int
    end: int
    data: bytes | None


def split_lines(chunks: Iterator[bytes], limit: int, offset: int = 0) -> Iterator[Line]:
    """Every line of the bytes that begin at `offset`; the last may lack its line feed."""
    held: list[bytes] = []  # the beginning of a line whose end is in a later chunk
    held_bytes = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        held_bytes += len(first)
        if held_bytes <= limit:
            held.append(first)
        else:
            held.clear()
        if not others:
            continue
        last = others.pop()
        end = offset + held_bytes + 1
        yield Line(offset, end, b"".join(held) if held_bytes <= limit else None)
        for data in others:
            offset, end = end, end + len(data) + 1
            yield Line(offset, end, data if len(data) <= limit else None)
        offset, held, held_bytes = end, [last], len(last)
    if held_bytes:
        yield Line(offset, offset + held_bytes, b"".join(held) if held_bytes <= limit else None)


def lines_of_range(file: BinaryIO, begin: int, end: int, limit: int) -> Iterator[Line]:
    """The lines that begin at `begin` or later and before `end`: ranges that tile a file give each line once.

    Looks at one byte before the range, and reads on behind it to the end of its last line.
    """
    if begin:
        file.seek(begin - 1)
        begin = _next_line(file, begin - 1, end)
        if begin >= end:
            return
    file.seek(begin)
    for line in split_lines(_blocks(file), limit, begin):
        if line.offset >= end:
            return
        yield line


def _next_line(file: BinaryIO, at: int, end: int) -> int:
    """Where the first line begins whose line feed before it is at `at` or later; `end` if that is not before `end`."""
    while at < end and (block := file.read(min(_READ_BYTES, end - at))):
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(block)
    return end


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_READ_BYTES):
        yield block
