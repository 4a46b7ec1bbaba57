"""Parquet files: one column, one row group at a time, streamed in batches so that memory does not follow either.

A row group is a slice. Page checksums are verified, values are validated, and whatever Arrow finds wrong inside a
row group is reported as damage of that row group, with its rows. The footer is checked here before Arrow sees it, so
that a truncated, gzipped, encrypted or foreign file is named for what it is.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    Unreadable,
)
from headrace.dataeng.sources.columnar import ARROW_ERRORS, bounded, column_of, first_line, kinds, to_batch
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.sources.parquet_guard import open_guarded, walk
from headrace.dataeng.sources.parquet_limits import Excess, Pages, check_schema
from headrace.dataeng.uris import redact
from headrace.errors import InputError

MAGIC: Final = b"PAR1"
ENCRYPTED: Final = b"PARE"
_TAIL_BYTES: Final = 8  # length of the footer, and the magic
_READ_BYTES: Final = 1 << 20
_MAX_EXPANDED: Final = 96 << 20
_FEWEST_ROWS: Final = 8  # at a time; below it, sharing costs less than so many small batches
_GATHERED_BYTES: Final = 4 << 20
_MAX_FOOTER_BYTES: Final = 256 << 20


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
            check_schema(_footer(file, size))
            metadata = pq.read_metadata(file)
            schema = metadata.schema.to_arrow_schema()
            columns = kinds(schema)
            groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
            rows = array("q", [group.num_rows for group in groups])
            column_bytes = {
                name: array("q", [group.column(leaf).total_uncompressed_size for group in groups])
                for name, leaf in _leaves(metadata).items()
                if columns.get(name) in ("text", "binary", "null")
            }
        except Excess as error:
            raise Unreadable(f"{name}: not read: {error}") from None
        except ARROW_ERRORS as error:
            raise Unreadable(f"{name}: the Parquet footer cannot be read ({first_line(error)})") from None
    if sum(rows) != metadata.num_rows or metadata.num_rows < 0:
        raise Unreadable(
            f"{name}: the footer says {metadata.num_rows:,} rows, its row groups have {sum(rows):,}; it is damaged"
        )
    return ParquetProbe(uri, size, fingerprint, columns, rows, column_bytes)


def _fingerprint(file: BinaryIO, size: int, name: str) -> str:
    """A hash of the footer, once the file's ends are what they must be; leaves the file at its beginning."""
    if size < 4 + _TAIL_BYTES:
        raise Unreadable(f"{name}: {size:,} bytes, too short for a Parquet file")
    head = file.read(4)
    file.seek(size - _TAIL_BYTES)
    tail = file.read(_TAIL_BYTES)
    if tail[4:] == ENCRYPTED or head == ENCRYPTED:
        raise Unreadable(f"{name}: an encrypted Parquet file; decrypt it first, headrace takes no keys")
    if tail[4:] != MAGIC:
        raise Unreadable(
            f"{name}: begins as Parquet but does not end as it ({tail[4:]!r} in place of {MAGIC!r}): "
            "truncated, or something was appended. Restore it from its source"
        )
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= size - _TAIL_BYTES - 4:
        raise Unreadable(
            f"{name}: the footer claims {length:,} bytes of a file of {size:,}; the file is damaged"
        )
    if length > _MAX_FOOTER_BYTES:
        raise Unreadable(
            f"{name}: a footer of {length:,} bytes, at most {_MAX_FOOTER_BYTES:,} are read; write it again with larger row groups"
        )
    footer = _footer(file, size)
    return hashlib.sha256(b"parquet:%d\n" % size + footer).hexdigest()


def _footer(file: BinaryIO, size: int) -> bytes:
    """Its bytes, once the ends of the file were checked; leaves the file at its beginning."""
    file.seek(size - _TAIL_BYTES)
    length = int.from_bytes(file.read(4), "little")
    file.seek(size - _TAIL_BYTES - length)
    footer = file.read(length)
    file.seek(0)
    return footer


def _leaves(metadata: Any) -> dict[str, int]:
    """Index among the file's leaves by name, or by path for those in structs; a name comes before an equal path."""
    leaves: dict[str, int] = {}
    for index in range(metadata.num_columns):
        leaf = metadata.schema.column(index)
        if leaf.path == leaf.name or leaf.path not in leaves:
            leaves[leaf.path] = index
    return leaves


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every row of a row group. See `read_slice`."""
    group = part.row_group
    assert group is not None
    assert part.num_rows is not None
    place = f"{source.name}: row group {group} ({part.num_rows:,} rows)"
    row = 0
    metadata = _planned_metadata(source.uri, source.name, source.size, source.fingerprint)
    with open_guarded(source.uri, _pages(metadata, group, columns)) as file:
        try:
            for arrow in _gathered(_record_batches(file, metadata, group, part, columns)):
                for piece in bounded(arrow, columns.text):
                    yield to_batch(piece, row, columns)
                    row += piece.num_rows
        except Excess as error:
            raise SourceDamage(f"{place} is not read: {error}") from None
        except ARROW_ERRORS as error:
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                raise InputError(f"{place} could not be read here: {first_line(error)}") from None
            raise SourceDamage(f"{place} cannot be read: {first_line(error)}") from None
    if row != part.num_rows:
        raise SourceDamage(f"{place} holds only {row:,}")


def _pages(metadata: Any, group: int, columns: Columns) -> list[Pages]:
    """The pages of the columns that are read."""
    found = []
    for name in [columns.text] if columns.id is None else [columns.text, columns.id]:
        chunk = metadata.row_group(group).column(_leaves(metadata)[name])
        begin = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < begin:
            begin = chunk.dictionary_page_offset
        found.append(Pages(begin, begin + chunk.total_compressed_size, columns.max_row_bytes))
    return found


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


def _record_batches(file: Any, metadata: Any, group: int, part: Slice, columns: Columns) -> Iterator[Any]:
    if isinstance(file, pa.OSFile):
        for pages in _pages(metadata, group, columns):
            walk(file, pages)
    wanted = [columns.text] if columns.id is None else [columns.text, columns.id]
    assert part.num_rows is not None
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * part.num_rows // max(part.text_bytes, 1)))
    copies = {name: _rows_of_copies(file, metadata, group, name, rows) for name in wanted}
    opened = _open(file, metadata, [name for name, allowed in copies.items() if not allowed])
    rows = min([allowed for allowed in copies.values() if allowed], default=rows)
    return opened.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False)  # type: ignore[no-any-return]


def _gathered(batches: Iterator[Any]) -> Iterator[Any]:
    """The same rows in larger batches, where reading them safely made small ones: each costs its overhead again."""
    held: list[Any] = []
    rows, num_bytes = 0, 0
    for batch in batches:
        if any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
            yield batch  # another batch may have another dictionary
            continue
        held.append(batch)
        rows += batch.num_rows
        num_bytes += batch.nbytes
        if rows >= BATCH_ROWS or num_bytes >= _GATHERED_BYTES:
            yield _joined(held)
            held, rows, num_bytes = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _open(file: Any, metadata: Any, shared: list[str]) -> Any:
    # pre_buffer would hold all of the column chunk; buffer_size makes Arrow read it page by page instead.
    return pq.ParquetFile(
        file,
        metadata=metadata,
        page_checksum_verification=True,
        pre_buffer=False,
        buffer_size=_READ_BYTES,
        read_dictionary=shared,
    )


def _rows_of_copies(file: Any, metadata: Any, group: int, column: str, rows: int) -> int:
    """How many of `rows` rows can be read at a time as texts of their own; 0 if they must share a dictionary's entries.

    Copies are read faster, but no size in the file bounds them: all rows may be of the longest entry.
    """
    chunk = metadata.row_group(group).column(_leaves(metadata)[column])
    if not chunk.has_dictionary_page:
        return rows
    # No entry is longer than the page that holds them all, whose size its header tells. Only if that allows too little
    # are the entries themselves looked at, which costs as much as reading them.
    allowed = _rows_of(_dictionary_bytes(file, chunk)) or _rows_of(
        _longest_entry(file, metadata, group, column)
    )
    return min(rows, allowed)


def _rows_of(longest: int | None) -> int:
    """How many rows of the longest entry may be in memory; 0 if that is unknown, or so few that sharing is better."""
    allowed = 0 if longest is None else _MAX_EXPANDED // max(longest, 1)
    return allowed if allowed >= _FEWEST_ROWS else 0


def _dictionary_bytes(file: Any, chunk: Any) -> int | None:
    """The size of the dictionary page when unpacked, out of the first two fields of its header; None if it is not there.

    A header is a Thrift struct in compact form: each of these fields is 0x15 (the next one, i32) and a zigzag varint. A
    size that is not true is noticed by Arrow when it unpacks the page.
    """
    if not chunk.dictionary_page_offset:
        return None
    head = file.read_at(16, chunk.dictionary_page_offset)
    if head[:3] != b"\x15\x04\x15":  # a page of the type 2: a dictionary
        return None
    value = 0
    for shift, byte in enumerate(head[3:8]):
        value |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return value >> 1 if not value & 1 else None
    return None


def _longest_entry(file: Any, metadata: Any, group: int, column: str) -> int | None:
    """Bytes of the longest entry of a chunk's dictionary, which its first row shows; None if that says nothing.

    Fewer than two entries may mean that the first page does not use it.
    """
    rows = _open(file, metadata, [column]).iter_batches(
        1, row_groups=[group], columns=[column], use_threads=False
    )
    first = next(rows, None)
    if first is None:
        return None  # damaged; the one who reads all of it says how
    values = column_of(first, column)
    if not pa.types.is_dictionary(values.type) or len(values.dictionary) < 2:
        return None
    return int(pc.max(pc.binary_length(values.dictionary)).as_py() or 0)
