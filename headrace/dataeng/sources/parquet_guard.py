"""Page headers are looked at before Arrow unpacks a page: of a local file first, of a remote one as its bytes come by."""

from __future__ import annotations

from typing import Any, BinaryIO, Final

import pyarrow as pa

from headrace.dataeng.sources.location import open_arrow, open_input
from headrace.dataeng.sources.parquet_limits import Pages
from headrace.dataeng.uris import is_remote

_HEADER_BYTES: Final = 128  # of a page; mostly enough


def walk(file: Any, pages: Pages) -> None:
    """Looks at the header of every page, from one to the next, and at nothing else."""
    count = _HEADER_BYTES
    while not pages.is_done:
        held, at = pages.num_held, pages.next_header
        data = file.read_at(count, at + held)
        if not data:
            return  # cut short, which Arrow names
        pages.feed(at + held, data)
        count = _HEADER_BYTES if pages.next_header != at else 2 * count


def open_guarded(uri: str, pages: list[Pages]) -> Any:
    """The file for Arrow; of a remote one every page header is looked at as it comes by, since to look first is to fetch
    twice.
    """
    if not is_remote(uri):
        return open_arrow(uri)
    return pa.PythonFile(_Guarded(open_input(uri), pages), mode="r")


class _Guarded:
    """A file whose reads are shown to `pages` before whoever reads."""

    def __init__(self, file: BinaryIO, pages: list[Pages]) -> None:
        self._file, self._pages = file, pages
        self.mode = "rb"

    def read(self, size: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        for pages in self._pages:
            pages.feed(at, data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False
