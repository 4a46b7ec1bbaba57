"""Where each document of a shard came from: a Parquet file beside it, one row a document, in the shard's order.

Training never reads it; tracing, verification and takedown do. `docs/formats/lineage.md` says every column.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

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
        pa.field("rows", pa.int64(), nullable=False),  # how many, from `row` on
        pa.field("byte_offset", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        # Of a duplicate: the earlier document that it repeats.
        pa.field("original_source", pa.string()),
        pa.field("original_row_group", pa.int32()),
        pa.field("original_row", pa.int64()),
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


def text_hashes(texts: Any) -> Any:
    """`text_hash` of every value of a StringArray or LargeStringArray without nulls, as one Arrow array."""
    offsets, data = string_buffers(texts)
    sha256 = hashlib.sha256
    hashes = b"".join([sha256(data[begin:end]).digest()[:16] for begin, end in pairwise(offsets.tolist())])
    return pa.Array.from_buffers(pa.binary(16), len(texts), [None, pa.py_buffer(hashes)])


def string_buffers(texts: Any) -> tuple[NDArray[np.int64], memoryview]:
    """Offsets [values + 1] and the bytes into which they point."""
    _, offsets, data = texts.buffers()
    dtype = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    found = np.frombuffer(offsets, dtype)[texts.offset : texts.offset + len(texts) + 1]
    return found.astype(np.int64, copy=False), memoryview(data if data is not None else b"")


def lineage_rows(
    *,
    source: str,
    row_group: int | None,
    row: NDArray[np.int64],
    byte_offset: NDArray[np.int64] | None,
    document_id: Any,
    text_bytes: NDArray[np.int64],
    tokens: NDArray[np.int64],
    text_hash: Any,
) -> Any:
    """A RecordBatch with SCHEMA: documents of one file and row group. `document_id` is an Arrow array, or None."""
    count = len(row)
    columns = [
        pa.nulls(count, pa.string()) if document_id is None else document_id,
        pa.repeat(pa.scalar(source, pa.string()), count),
        pa.repeat(pa.scalar(row_group, pa.int32()), count),
        pa.array(row),
        pa.nulls(count, pa.int64()) if byte_offset is None else pa.array(byte_offset),
        pa.array(text_bytes),
        pa.array(tokens),
        text_hash,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class TableWriter:
    """A Parquet file like those of `encode_table`, from RecordBatches; how the rows are spread over them does not show.

    A row group is encoded as soon as it is full: a shard of one-token documents is millions of rows, which in Arrow's
    memory need ten times the shard's size.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self._writer = pq.ParquetWriter(self._sink, schema, **_writer_options(schema))
        self._held: list[Any] = []
        self._num_held = 0

    def add(self, rows: Any) -> None:
        self._held.append(rows)
        self._num_held += len(rows)
        while self._num_held > _ROW_GROUP:
            self._write(_ROW_GROUP)

    def finish(self) -> bytes:
        """The whole file; nothing can be added any more."""
        self._write(self._num_held)
        self._writer.close()
        return bytes(self._sink.getvalue())

    def _write(self, count: int) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._writer.write_table(table.slice(0, count).combine_chunks())
        self._held = table.slice(count).to_batches()
        self._num_held -= count


class LineageWriter(TableWriter):
    """The lineage file of one shard."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)


def as_rejects(table: Any) -> Any:
    """`table` with REJECTS_SCHEMA: in its order, cast; where it has no such column null, but one row an entry."""
    columns = []
    for field in REJECTS_SCHEMA:
        if field.name in table.schema.names:
            columns.append(table[field.name].cast(field.type))
        elif field.name == "rows":
            columns.append(pa.repeat(pa.scalar(1, field.type), len(table)))
        else:
            columns.append(pa.nulls(len(table), field.type))
    return pa.table(columns, REJECTS_SCHEMA)


def encode_table(table: Any) -> bytes:
    """A Parquet file: the same bytes for the same values and version of pyarrow; page checksums on."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=_ROW_GROUP, **_writer_options(table.schema))
    return bytes(sink.getvalue())


def _writer_options(schema: Any) -> dict[str, Any]:
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": [n for n in ("source", "reason", "original_source") if n in schema.names],
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
