"""Trees of text or code: each file is a document, and its path below the tree is its id.

A file that is named by itself has its own name for an id.

Files are taken in the order of their paths' bytes. Symbolic links to files are followed, those to directories are not, so
that there is no loop to run into. A text is UTF-8 without a byte order mark; a file
with a NUL in its first 8,000 bytes is binary, which is the rule that git goes by.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    BINARY,
    NOT_UTF8,
    TOO_LARGE,
    Batch,
    Columns,
    Slice,
    SourceFile,
    reject_reason,
)
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.storage import redact
from headrace.errors import InputError

_BINARY_BYTES: Final = 8_000


@dataclass(frozen=True, slots=True)
class TreeProbe:
    """The files below `uri` (or `uri` itself), in order, with their sizes. The path of `uri` itself is empty."""

    uri: str = field(repr=False)
    below: tuple[tuple[str, int], ...]

    @property
    def columns(self) -> dict[str, str]:
        """None: a file is a text as it is."""
        return {}

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """Cuts the list of files into ranges of about `slice_bytes`, each of at most as many files as fit a batch."""
        del columns
        slices: list[Slice] = []
        first, held = 0, 0
        for row, (_, size) in enumerate(self.below):
            if row > first and (held + size > slice_bytes or row - first == BATCH_ROWS):
                slices.append(self._slice(file, first, row, held))
                first, held = row, 0
            held += size
        if self.below:
            slices.append(self._slice(file, first, len(self.below), held))
        digest = hashlib.sha256(b"files:%d\n" % len(self.below))
        for path, size in self.below:
            digest.update(b"%d %s\0" % (size, _bytes(path)))
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="files",
            size=sum(size for _, size in self.below),
            fingerprint=digest.hexdigest(),
            num_rows=len(self.below),
            slices=tuple(slices),
        )

    def _slice(self, file: int, first: int, end: int, size: int) -> Slice:
        return Slice(
            file=file, first_row=first, num_rows=end - first, text_bytes=size, paths=self.below[first:end]
        )


def probe(uri: str, found: Sequence[tuple[str, int]]) -> TreeProbe:
    """`found`: paths below `uri` and sizes, in any order."""
    return TreeProbe(uri, tuple(sorted(found, key=lambda entry: _bytes(entry[0]))))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every file of the slice. See `read_slice`."""
    texts: list[bytes | None] = []
    ids: list[str | None] = []
    rejects: dict[int, str] = {}
    first, held = part.first_row, 0
    for row, (path, size) in enumerate(part.paths, part.first_row):
        text, reason = _document(source, path, size, columns.max_document_bytes)
        if reason is not None:
            rejects[len(texts)] = reason
            text = None
        texts.append(text)
        ids.append((path or source.name.rpartition("/")[2]) if reason is None else None)
        held += len(text or b"")
        if held >= BATCH_BYTES:
            yield Batch.of(first_row=first, texts=texts, ids=ids, byte_offsets=None, rejects=rejects)
            texts, ids, rejects, first, held = [], [], {}, row + 1, 0
    if texts:
        yield Batch.of(first_row=first, texts=texts, ids=ids, byte_offsets=None, rejects=rejects)


def _document(source: SourceFile, path: str, size: int, longest: int) -> tuple[bytes | None, str | None]:
    """(text, reason) of one file."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return None, NOT_UTF8  # its name, which is its id, is not
    if size > longest:
        return None, TOO_LARGE
    uri = f"{source.uri.rstrip('/')}/{path}" if path else source.uri
    with open_input(uri) as file:
        data = file.read(size + 1)
    if len(data) != size:
        raise InputError(
            f"{redact(uri)}: planned with {size:,} bytes, now it has {'more' if len(data) > size else f'{len(data):,}'}; "
            "leave the inputs as they are and run the same command again"
        )
    if b"\0" in data[:_BINARY_BYTES]:
        return None, BINARY
    data = data.removeprefix(codecs.BOM_UTF8)
    return data, reject_reason(data, longest)
