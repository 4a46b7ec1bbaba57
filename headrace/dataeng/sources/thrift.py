"""The least of Thrift's compact protocol: enough to see what a Parquet header claims before anyone believes it.

field  = delta of its number << 4 | type (the number as a zigzag varint behind it where the delta is 0); 0 ends a struct
i16-64 = zigzag varint        binary = varint length, bytes        list = size << 4 | type (15: a varint size follows)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS: Final = (4, 5, 6)
_MAX_DEPTH: Final = 16  # deeper than anything in a Parquet header


class Truncated(Exception):
    """The data ends inside a value."""


class Malformed(Exception):
    """Not Thrift, or nothing that Parquet has."""


class Reader:
    """A place in compact data; raises Truncated or Malformed."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self._data, self.at = memoryview(data), at

    def fields(self) -> Iterator[tuple[int, int]]:
        """(number, type) of each field of the struct that begins here; whoever takes one reads or skips its value."""
        number = 0
        while (head := self._byte()) != 0:
            delta, kind = head >> 4, head & 15
            number = number + delta if delta else self.integer()
            yield number, kind

    def integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def list_head(self) -> tuple[int, int]:
        """(size, type of the elements)."""
        head = self._byte()
        size = head >> 4
        return (self._varint() if size == 15 else size), head & 15

    def skip(self, kind: int, depth: int = 0, *, in_list: bool = False) -> None:
        """Passes over a value."""
        if depth > _MAX_DEPTH:
            raise Malformed
        if kind in (_TRUE, _FALSE):
            self._move(1 if in_list else 0)
        elif kind == _BYTE:
            self._move(1)
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self._move(8)
        elif kind == _BINARY:
            self._move(self._varint())
        elif kind in (_LIST, _SET):
            size, inner = self.list_head()
            for _ in range(size):
                self.skip(inner, depth + 1, in_list=True)
        elif kind == _MAP:
            if size := self._varint():
                kinds = self._byte()
                for _ in range(size):
                    self.skip(kinds >> 4, depth + 1, in_list=True)
                    self.skip(kinds & 15, depth + 1, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        else:
            raise Malformed

    def _byte(self) -> int:
        self._move(1)
        return self._data[self.at - 1]

    def _move(self, count: int) -> None:
        if count > len(self._data) - self.at:
            raise Truncated
        self.at += count

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed
