"""datatrove's `.ds`: ids in uint16 or uint32, and beside it `.ds.index`, the ends of the documents in tokens, uint64.

`.ds.metadata` says on its first line which tokenizer it was and, behind the last `|`, the bytes of an id. What was
shuffled is taken as it lies: its order is that of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from headrace.convert.flat import FlatFile, Run, cut, read_lengths, require_whole
from headrace.convert.token_file import Documents, fingerprint, open_sized, read_at
from headrace.dataeng.mds import Lengths
from headrace.dataeng.sources.base import Slice, SourceFile
from headrace.dataeng.sources.location import is_file, open_input
from headrace.dataeng.uris import redact
from headrace.errors import InputError

_BLOCK: Final = 1 << 16
_DTYPES: Final = {2: "<u2", 4: "<u4"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """`Borders` from a file of ends."""

    uri: str
    where: str
    documents: int

    @property
    def uris(self) -> tuple[str, ...]:
        return (self.uri,)

    def plan(self, run: Run, file: int) -> tuple[int | None, tuple[Slice, ...]]:
        index, _ = open_sized(self.uri)
        with index:
            return self.documents, tuple(
                cut(file, self._starts(index, run), run.count, run.begin, run.itemsize)
            )

    def read(self, run: Run, tokens: BinaryIO, part: Slice) -> Iterator[Documents]:
        index, _ = open_sized(self.uri)
        with index:
            yield from read_lengths(run, tokens, part, self._lengths(index, part))

    def _lengths(self, index: BinaryIO, part: Slice) -> Iterator[Lengths]:
        assert part.num_rows is not None
        for first in range(part.first_row, part.first_row + part.num_rows, _BLOCK):
            count = min(_BLOCK, part.first_row + part.num_rows - first)
            before, ends = self._ends(index, first, count)
            yield np.diff(ends, prepend=before)

    def _starts(self, index: BinaryIO, run: Run) -> Iterator[NDArray[np.int64]]:
        for first in range(0, self.documents, _BLOCK):
            count = min(_BLOCK, self.documents - first)
            before, ends = self._ends(index, first, count)
            starts = np.concatenate([[before], ends[:-1]])
            last = first + count == self.documents
            if (ends < starts).any() or int(ends[-1]) > run.count or (last and int(ends[-1]) != run.count):
                raise InputError(
                    f"{self.where}: the ends of documents {first:,} to {first + count - 1:,} do not ascend to the "
                    f"{run.count:,} tokens of {run.where}; the two do not belong together, or one is damaged, and both are "
                    "refused"
                )
            yield starts

    def _ends(self, index: BinaryIO, first: int, count: int) -> tuple[int, NDArray[np.int64]]:
        """The end of the document before, and those of `count` documents. An end beyond int64 shows as negative."""
        one = 1 if first else 0
        found = read_at(index, 8 * (first - one), count + one, "<i8", self.where)
        ends: NDArray[np.int64] = found[one:].astype(np.int64, copy=False)
        return (int(found[0]) if first else 0), ends


def open_file(uri: str, file: int, *, dtype: str | None = None) -> FlatFile:
    """A `.ds` file. dtype: of its ids, where it has no metadata. Raises InputError."""
    where, index_uri = redact(uri), f"{uri}.index"
    if not is_file(index_uri):
        raise InputError(
            f"{where}: without {redact(index_uri)} it is not known where documents end; restore that file, or give the "
            "tokens as a raw file (.bin) with --dtype and --split-after"
        )
    told = _told_dtype(f"{uri}.metadata")
    found = told or (None if dtype is None else np.dtype(dtype).newbyteorder("<").str)
    if (
        found is None
        or found not in _DTYPES.values()
        or (dtype and told and np.dtype(dtype) != np.dtype(told))
    ):
        raise InputError(
            f"{where}: "
            + (f"its metadata says {np.dtype(told).name}, " if told else "it has no .ds.metadata that says whether ids are uint16 or uint32, ")
            + ("and --dtype says otherwise" if dtype else "so give --dtype")
        )  # fmt: skip
    opened, size = open_sized(uri)
    opened.close()
    run = Run(
        uri=uri,
        where=where,
        dtype=found,
        begin=0,
        count=require_whole(where, size, 0, np.dtype(found).itemsize),
    )
    opened, index_size = open_sized(index_uri)
    opened.close()
    documents = require_whole(redact(index_uri), index_size, 0, 8)
    ends = Ends(uri=index_uri, where=redact(index_uri), documents=documents)
    rows, slices = ends.plan(run, file)
    source = SourceFile(
        uri=uri,
        name=where,
        format="datatrove",
        size=size,
        fingerprint=fingerprint("datatrove", uri, index_uri),
        num_rows=rows,
        slices=slices,
    )
    return FlatFile(source=source, run=run, borders=ends)


def _told_dtype(uri: str) -> str | None:
    if not is_file(uri):
        return None
    with open_input(uri) as file:
        first = file.read(4096).split(b"\n")[0]
    size = first.rpartition(b"|")[2].strip()
    return _DTYPES.get(int(size)) if size.isdigit() and len(size) < 3 else None
