"""Where each document of a shard came from: a Parquet file beside it, one row a document, in the shard's order.

Training never reads it; tracing, verification and takedown do. `docs/formats/lineage.md` says every column.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import DamageError
from headrace.manifests.parquet import read_table

SCHEMA: Final = pa.schema(
    [
        pa.field("document_id", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        pa.field("row_group", pa.int32()),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("byte_offset", pa.int64()),
        pa.field("text_bytes", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("text_hash", pa.binary(16), nullable=False),
    ]
)
REJECTS_SCHEMA: Final = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("row_group", pa.int32()),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("byte_offset", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
_ROW_GROUP: Final = 1 << 17


def place(row_group: int | None, row: int, byte_offset: int | None) -> str:
    """Where a row is in its source, in words."""
    if byte_offset is None:
        return f"row {row:,}" if row_group is None else f"row group {row_group:,}, row {row:,}"
    within = "" if row_group is None else f" of range {row_group:,},"
    return f"record {row:,}{within} at byte {byte_offset:,}"


def text_hash(text: bytes) -> bytes:
    """The first 16 bytes of the SHA-256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text).digest()[:16]


@dataclass(slots=True)
class LineageColumns:
    """Lineage in the making: one entry a document in each list, named as in SCHEMA."""

    document_id: list[str | None] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    row_group: list[int | None] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    byte_offset: list[int | None] = field(default_factory=list)
    text_bytes: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    text_hash: list[bytes] = field(default_factory=list)

    def add(
        self,
        *,
        document_id: str | None,
        source: str,
        row_group: int | None,
        row: int,
        byte_offset: int | None,
        text_bytes: int,
        tokens: int,
        text_hash: bytes,
    ) -> None:
        self.document_id.append(document_id)
        self.source.append(source)
        self.row_group.append(row_group)
        self.row.append(row)
        self.byte_offset.append(byte_offset)
        self.text_bytes.append(text_bytes)
        self.tokens.append(tokens)
        self.text_hash.append(text_hash)

    def extend(self, other: LineageColumns, begin: int, end: int) -> None:
        """Appends the documents `begin` to `end` (exclusive) of `other`."""
        for name in SCHEMA.names:
            getattr(self, name).extend(getattr(other, name)[begin:end])

    def take(self, count: int) -> LineageColumns:
        """Removes the first `count` documents and returns them."""
        taken = LineageColumns(**{name: getattr(self, name)[:count] for name in SCHEMA.names})
        for name in SCHEMA.names:
            del getattr(self, name)[:count]
        return taken


class LineageWriter:
    """The lineage file of one shard. A row group is encoded as soon as it is full: as Python objects, the documents of a
    shard may need twenty times the shard's size.
    """

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, SCHEMA, **_writer_options(SCHEMA))
        self._held = LineageColumns()

    def extend(self, documents: LineageColumns, begin: int, end: int) -> None:
        """Appends the documents `begin` to `end` (exclusive)."""
        self._held.extend(documents, begin, end)
        while len(self._held.row) > _ROW_GROUP:
            self._write(self._held.take(_ROW_GROUP))

    def to_parquet(self) -> bytes:
        """The whole file; nothing can be added any more."""
        self._write(self._held)
        self._writer.close()
        return bytes(self._sink.getvalue())

    def _write(self, columns: LineageColumns) -> None:
        self._writer.write_table(pa.table({name: getattr(columns, name) for name in SCHEMA.names}, SCHEMA))


@dataclass(slots=True)
class RejectColumns:
    """Rejects in the making: one entry a rejected row in each list, named as in REJECTS_SCHEMA."""

    source: list[str] = field(default_factory=list)
    row_group: list[int | None] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    byte_offset: list[int | None] = field(default_factory=list)
    reason: list[str] = field(default_factory=list)

    def add(self, source: str, row_group: int | None, row: int, byte_offset: int | None, reason: str) -> None:
        self.source.append(source)
        self.row_group.append(row_group)
        self.row.append(row)
        self.byte_offset.append(byte_offset)
        self.reason.append(reason)

    def describe(self, index: int) -> str:
        """One reject in words."""
        where = place(self.row_group[index], self.row[index], self.byte_offset[index])
        return f"{self.source[index]}: {where}: {self.reason[index]}"

    def to_parquet(self) -> bytes:
        return encode_table(pa.table({n: getattr(self, n) for n in REJECTS_SCHEMA.names}, REJECTS_SCHEMA))


def encode_table(table: Any) -> bytes:
    """A Parquet file: the same bytes for the same values and version of pyarrow; page checksums on."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=_ROW_GROUP, **_writer_options(table.schema))
    return bytes(sink.getvalue())


def _writer_options(schema: Any) -> dict[str, Any]:
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [name for name in ("source", "reason") if name in schema.names],
        "write_page_checksum": True,
        "store_schema": False,
    }


def read_lineage(data: bytes, where: str, columns: list[str] | None = None) -> Any:
    """The lineage of a shard as a pyarrow Table with SCHEMA (or only `columns` of it).

    Raises DamageError if `data` is not a lineage file.
    """
    wanted = columns if columns is not None else SCHEMA.names
    schema = pa.schema([SCHEMA.field(name) for name in wanted])
    try:
        table = read_table(data, wanted)
        table = table.select(wanted).cast(schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DamageError(
            f"{where}: not a lineage file ({type(error).__name__}); restore or rebuild the dataset"
        ) from None
    return table
