"""Arrow IPC: the file format (Feather version 2) one record batch at a time, the stream format from its beginning.

A record batch of a file is a slice; a stream is one slice, since nothing says where its batches begin. Only the columns
asked for are loaded. A record batch is the least that can be read, so memory follows the largest of them; a local file is
mapped, and what of it is not compressed is never copied as a whole. The format has no checksums: what Arrow's own
validation of offsets, indices and lengths sees is damage, and a changed letter is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    Unreadable,
    require_planned,
    sampled_fingerprint,
)
from headrace.dataeng.sources.columnar import ARROW_ERRORS, bounded, first_line, kinds, path_in, to_batch
from headrace.dataeng.sources.location import open_arrow, open_input
from headrace.dataeng.storage import redact
from headrace.errors import InputError

FILE_MAGIC: Final = b"ARROW1\0\0"
_TAIL_MAGIC: Final = b"ARROW1"


@dataclass(frozen=True, slots=True)
class ArrowProbe:
    """The schema, and of a file the number of its record batches."""

    uri: str = field(repr=False)
    size: int
    fingerprint: str
    num_batches: int | None  # None: a stream
    columns: dict[str, str]

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """One slice a record batch; their sizes are taken to be equal."""
        del columns, slice_bytes
        count = 1 if self.num_batches is None else self.num_batches
        slices = [
            Slice(
                file=file,
                row_group=None if self.num_batches is None else number,
                num_rows=None,
                text_bytes=self.size // count,
            )
            for number in range(count)
        ]
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="arrow",
            size=self.size,
            fingerprint=self.fingerprint,
            num_rows=None if slices else 0,
            slices=tuple(slices),
        )


def probe(uri: str, size: int) -> ArrowProbe:
    """Reads the schema and the footer. Raises InputError with what was found."""
    name = redact(uri)
    with open_input(uri) as file:
        fingerprint = sampled_fingerprint("arrow", file, size)
        is_file = file.read(len(FILE_MAGIC)) == FILE_MAGIC
        if is_file:
            file.seek(max(0, size - len(_TAIL_MAGIC)))
            tail = file.read(len(_TAIL_MAGIC))
            if tail != _TAIL_MAGIC or size < 2 * len(FILE_MAGIC):
                raise Unreadable(
                    f"{name}: begins as an Arrow file but does not end as one ({tail!r} in place of {_TAIL_MAGIC!r}): "
                    "truncated, or something was appended. Restore it from its source"
                )
    try:
        with open_arrow(uri, mapped=True) as source:
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            columns = kinds(reader.schema)
            num_batches = reader.num_record_batches if is_file else None
    except ARROW_ERRORS as error:
        raise Unreadable(f"{name}: the Arrow schema or footer cannot be read ({first_line(error)})") from None
    if not columns:
        raise Unreadable(f"{name}: an Arrow schema without columns; there is no text in it")
    return ArrowProbe(uri, size, fingerprint, num_batches, columns)


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every row of a record batch, or of a stream. See `read_slice`."""
    require_planned(source)
    place, row = source.name, 0
    try:
        with open_arrow(source.uri, mapped=True) as file:
            if part.row_group is not None:
                place = f"{source.name}: record batch {part.row_group}"
                reader = pa.ipc.open_file(file, options=_only(file, columns))
                arrow = reader.get_batch(part.row_group)
                yield from _in_batches(arrow, 0, columns)
                return
            stream = pa.ipc.open_stream(file, options=_only(file, columns))
            number = 0
            place = f"{source.name}: record batch {number} of the stream"
            while (arrow := _next(stream)) is not None:
                yield from _in_batches(arrow, row, columns)
                row += arrow.num_rows
                number += 1
                place = f"{source.name}: record batch {number} of the stream"
    except ARROW_ERRORS as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise InputError(f"{place} could not be read here: {first_line(error)}") from None
        raise SourceDamage(f"{place} cannot be read: {first_line(error)}", row) from None


def _next(stream: Any) -> Any:
    try:
        return stream.read_next_batch()
    except StopIteration:
        return None


def _only(file: Any, columns: Columns) -> Any:
    """Options to load no other column than those asked for."""
    begin = file.tell()
    file.seek(0)
    is_file = file.read(len(FILE_MAGIC)) == FILE_MAGIC
    file.seek(begin)
    schema = (pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)).schema
    file.seek(begin)
    wanted = {path_in(schema, name)[0] for name in (columns.text, columns.id) if name is not None}
    return pa.ipc.IpcReadOptions(
        included_fields=[index for index, name in enumerate(schema.names) if name in wanted],
        use_threads=False,
    )


def _in_batches(arrow: Any, first_row: int, columns: Columns) -> Iterator[Batch]:
    """A record batch in pieces of bounded size, once all of it was found to be sound."""
    arrow.validate(full=False)
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * arrow.num_rows // max(arrow.nbytes, 1)))
    for begin in range(0, arrow.num_rows, rows):
        for piece in bounded(arrow.slice(begin, rows), columns.text):
            yield to_batch(piece, first_row, columns)
            first_row += piece.num_rows
