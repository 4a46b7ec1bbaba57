"""What a Parquet file claims, looked at before Arrow believes it: a footer's schema, and the sizes of pages.

A page is unpacked as a whole. One of 25 kB may claim, and unpack to, 2 GB, and a schema of a megabyte may be nested deeper
than any stack; both are told here by their headers, which are Thrift structs.
"""

from __future__ import annotations

from typing import Final

from headrace.dataeng.sources.thrift import Malformed, Reader, Truncated

MAX_SCHEMA_DEPTH: Final = 128
MAX_COLUMNS: Final = 200_000  # nodes of the schema; Arrow needs about 1 kB for each
MAX_PAGE_BYTES: Final = 1 << 30  # unpacked; Arrow itself ends at 2 GiB
_HONEST_RATIO: Final = 64  # of unpacked to packed bytes: text and code pack by 2 to 20
_MAX_HEADER_BYTES: Final = 16 << 20  # statistics may hold whole values


class Excess(Exception):
    """More than a file may ask for; says what, and what to do."""


def check_schema(footer: bytes) -> None:
    """Raises Excess for a schema that is too deep or too wide. What cannot be read is left to Arrow to name."""
    try:
        reader = Reader(footer)
        for number, kind in reader.fields():
            if number != 2:
                reader.skip(kind)
                continue
            _check_elements(reader)
            return
    except (Malformed, Truncated):
        return


def _check_elements(reader: Reader) -> None:
    size, _ = reader.list_head()
    if size > MAX_COLUMNS:
        raise Excess(f"a schema of {size:,} columns and groups, at most {MAX_COLUMNS:,} are read")
    open_groups: list[int] = []  # how many children each still has to come
    for _ in range(size):
        children = 0
        for number, kind in reader.fields():
            if number == 5:
                children = reader.integer()
            else:
                reader.skip(kind)
        if open_groups:
            open_groups[-1] -= 1
        if children > 0:
            open_groups.append(children)
        while open_groups and open_groups[-1] <= 0:
            open_groups.pop()
        if len(open_groups) > MAX_SCHEMA_DEPTH:
            raise Excess(f"a schema nested deeper than {MAX_SCHEMA_DEPTH} levels")


class Pages:
    """Follows the pages of one column chunk by their headers, which are given to it as they come by, in order."""

    def __init__(self, begin: int, end: int, longest_row: int) -> None:
        """begin, end: where the chunk lies in the file. longest_row: bytes of the longest row that may be read."""
        self.next_header, self._end = begin, end
        self._longest_row = longest_row
        self._held = b""

    @property
    def is_done(self) -> bool:
        return self.next_header >= self._end

    def feed(self, at: int, data: bytes) -> None:
        """`data` lies at `at` of the file. Raises Excess. What is no header is left to Arrow to name."""
        while not self.is_done:
            begin = self.next_header + len(self._held)
            if not at <= begin < at + len(data):
                return
            header = self._held + data[begin - at : begin - at + _MAX_HEADER_BYTES]
            self._held = b""
            try:
                sizes = _page_sizes(header)
            except Truncated:
                if len(header) < min(_MAX_HEADER_BYTES, self._end - self.next_header):
                    self._held = header
                else:
                    self.next_header = self._end
                return
            except Malformed:
                self.next_header = self._end
                return
            unpacked, packed, length = sizes
            self._check(unpacked, packed)
            self.next_header += length + max(packed, 0)

    @property
    def num_held(self) -> int:
        """Bytes of a header whose end has not come by."""
        return len(self._held)

    def _check(self, unpacked: int, packed: int) -> None:
        allowed = max(self._longest_row, min(_HONEST_RATIO * packed, MAX_PAGE_BYTES))
        if unpacked > allowed:
            raise Excess(
                f"the page at byte {self.next_header:,} unpacks from {packed:,} bytes to {unpacked:,}, and at most {allowed:,} "
                "are read, so that memory stays bounded. If the file can be trusted, raise --max-document-bytes, or write "
                "it again with smaller pages"
            )


def _page_sizes(header: bytes) -> tuple[int, int, int]:
    """(unpacked bytes, packed bytes, length of the header)."""
    reader = Reader(header)
    sizes: dict[int, int] = {}
    for number, kind in reader.fields():
        if number in (2, 3) and kind == 5:
            sizes[number] = reader.integer()
        else:
            reader.skip(kind)
    if len(sizes) < 2:
        raise Malformed
    return sizes[2], sizes[3], reader.at
