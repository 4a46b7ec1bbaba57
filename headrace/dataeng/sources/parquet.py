"""Parquet files: one column, one row group at a time, streamed in batches so that memory does not follow either.

A row group is a slice. Page checksums are verified, values are validated, and whatever Arrow finds wrong inside a
row group is reported as damage of that row group, with its rows. The footer is checked here before Arrow sees it, so
that a truncated, gzipped, encrypted or foreign file is named for what it is.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    NOT_UTF8,
    NULL,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    is_utf8,
    reject_reason,
)
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.storage import redact
from headrace.errors import InputError

MAGIC: Final = b"PAR1"
ENCRYPTED: Final = b"PARE"
_TAIL_BYTES: Final = 8  # length of the footer, and the magic
_READ_BYTES: Final = 1 << 20
# What Arrow raises for bytes that are not what they should be; it has no narrower class for it.
_ARROW_ERRORS: Final = (pa.ArrowException, OSError, ValueError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class ParquetProbe:
    """What planning needs of a file's footer. The footer itself is let go: parsed, a thousand row groups of ten columns
    are 7 MB, and a corpus has ten thousand files.

    rows: rows of each row group. column_bytes: by column that may hold text, its bytes in each row group.
    """

    uri: str = field(repr=False)
    size: int
    fingerprint: str
    columns: dict[str, str]
    rows: array[int] = field(repr=False)
    column_bytes: dict[str, array[int]] = field(repr=False)

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """One slice a row group; the size of its text is estimated from the footer."""
        del slice_bytes  # a row group is read from its beginning, so cutting it would read it twice
        sizes = self.column_bytes.get(
            columns.text, self.rows
        )  # a file without columns has no row groups either
        slices = tuple(
            Slice(file=file, row_group=group, num_rows=rows, text_bytes=text_bytes)
            for group, (rows, text_bytes) in enumerate(zip(self.rows, sizes, strict=True))
            if rows
        )
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="parquet",
            size=self.size,
            fingerprint=self.fingerprint,
            num_rows=sum(self.rows),
            slices=slices,
        )


def probe(uri: str, size: int) -> ParquetProbe:
    """Reads and checks the footer. Raises InputError with what was found."""
    name = redact(uri)
    with open_input(uri) as file:
        fingerprint = _fingerprint(file, size, name)
        try:
            metadata = pq.read_metadata(file)
            schema = metadata.schema.to_arrow_schema()
            columns = {column.name: _kind(column.type) for column in schema}
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            rows = array("q", [group.num_rows for group in groups])
            column_bytes = {
                name: array("q", [group.column(leaf).total_uncompressed_size for group in groups])
                for name, leaf in _leaves(metadata)
                if columns.get(name) in ("text", "binary", "null")
            }
        except _ARROW_ERRORS as error:
            raise InputError(f"{name}: the Parquet footer cannot be read ({_first_line(error)})") from None
    for column, count in Counter(schema.names).items():
        if count > 1:
            columns[column] = "a name that two columns share"
    if sum(rows) != metadata.num_rows or metadata.num_rows < 0:
        raise InputError(
            f"{name}: the footer says {metadata.num_rows:,} rows, its row groups have {sum(rows):,}; it is damaged"
        )
    return ParquetProbe(uri, size, fingerprint, columns, rows, column_bytes)


def _fingerprint(file: BinaryIO, size: int, name: str) -> str:
    """A hash of the footer, once the file's ends are what they must be; leaves the file at its beginning."""
    if size < 4 + _TAIL_BYTES:
        raise InputError(f"{name}: {size:,} bytes, too short for a Parquet file")
    head = file.read(4)
    file.seek(size - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    if tail[4:] == ENCRYPTED or head == ENCRYPTED:
        raise InputError(f"{name}: an encrypted Parquet file; decrypt it first, headrace takes no keys")
    if tail[4:] != MAGIC:
        raise InputError(
            f"{name}: begins as Parquet but does not end as it ({tail[4:]!r} in place of {MAGIC!r}): "
            "truncated, or something was appended. Restore it from its source"
        )
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= size - _TAIL_BYTES - 4:
        raise InputError(
            f"{name}: the footer claims {length:,} bytes of a file of {size:,}; the file is damaged"
        )
    file.seek(size - _TAIL_BYTES - length)
    footer = file.read(length)
    file.seek(0)
    return hashlib.sha256(b"parquet:%d\n" % size + footer).hexdigest()


def _leaves(metadata: Any) -> Iterator[tuple[str, int]]:
    """(name, index among the file's leaves) of every top-level primitive column."""
    for index in range(metadata.num_columns):
        leaf = metadata.schema.column(index)
        if leaf.path == leaf.name:
            yield leaf.name, index


def _kind(kind: Any) -> str:
    """The sort of a column, as `discover` compares them; a type headrace cannot use is named in words."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "binary"
    if types.is_integer(kind):
        return "integer"
    return "null" if types.is_null(kind) else str(kind)[:80]


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every row of a row group. See `read_slice`."""
    group = part.row_group
    assert group is not None
    assert part.num_rows is not None
    place = f"{source.name}: row group {group} ({part.num_rows:,} rows)"
    row = 0
    with open_input(source.uri) as file:
        try:
            for arrow in _record_batches(file, source, group, part, columns):
                texts, rejects = _texts(arrow.column(columns.text))
                ids = _ids(arrow.column(columns.id), rejects, texts) if columns.id is not None else None
                if len(texts):
                    yield Batch(first_row=row, texts=texts, ids=ids, byte_offsets=None, rejects=rejects)
                row += len(texts)
        except _ARROW_ERRORS as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                raise InputError(f"{place} could not be read here: {_first_line(error)}") from None
            raise SourceDamage(f"{place} cannot be read: {_first_line(error)}") from None
    if row != part.num_rows:
        raise SourceDamage(f"{place} holds only {row:,}")


@lru_cache(maxsize=2)
def _planned_metadata(uri: str, name: str, size: int, fingerprint: str) -> Any:
    """The footer, parsed once a process for all row groups, after a check that it is the one that was planned."""
    with open_input(uri) as file:
        if file.seek(0, 2) != size or file.seek(0) or _fingerprint(file, size, name) != fingerprint:
            raise InputError(
                f"{name}: not the file that was planned, it changed since; "
                "leave the inputs as they are and run the same command again"
            )
        return pq.read_metadata(file)


def _record_batches(
    file: BinaryIO, source: SourceFile, group: int, part: Slice, columns: Columns
) -> Iterator[Any]:
    metadata = _planned_metadata(source.uri, source.name, source.size, source.fingerprint)
    # pre_buffer would hold all of the column chunk; buffer_size makes Arrow read it page by page instead.
    opened = pq.ParquetFile(
        file, metadata=metadata, page_checksum_verification=True, pre_buffer=False, buffer_size=_READ_BYTES
    )
    assert part.num_rows is not None
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * part.num_rows // max(part.text_bytes, 1)))
    wanted = [columns.text] if columns.id is None else [columns.text, columns.id]
    return opened.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False)  # type: ignore[no-any-return]


def _texts(column: Any) -> tuple[list[bytes | None], dict[int, str]]:
    """The values as bytes, each checked to be UTF-8 by itself: Arrow would only say that one of them is not."""
    values = _as_binary(column).to_pylist()
    rejects: dict[int, str] = {}
    for position, value in enumerate(values):
        reason = NULL if value is None else reject_reason(value)
        if reason is not None:
            rejects[position] = reason
            values[position] = None
    return values, rejects


def _ids(column: Any, rejects: dict[int, str], texts: list[bytes | None]) -> list[str | None]:
    if pa.types.is_integer(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    ids: list[str | None] = []
    for position, value in enumerate(_as_binary(column).to_pylist()):
        if value is not None and not is_utf8(value):
            rejects.setdefault(position, NOT_UTF8)
            texts[position] = value = None
        ids.append(None if value is None else value.decode())
    return ids


def _as_binary(column: Any) -> Any:
    """The bytes of a text column of any layout, with offsets and indices validated before they are followed."""
    if pa.types.is_null(column.type):
        return column
    if pa.types.is_dictionary(column.type):
        column.indices.validate(full=True)
        _as_binary(column.dictionary)
        if len(column.dictionary) == 0 and column.null_count == len(column):
            return pa.nulls(len(column), pa.binary())
        column = column.dictionary_decode()
    binary = column.cast(pa.large_binary())
    binary.validate(full=True)
    return binary


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
