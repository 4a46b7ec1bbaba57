from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataeng.lineage import (
    SCHEMA,
    LineageColumns,
    LineageWriter,
    RejectColumns,
    encode_table,
    place,
    read_lineage,
    text_hash,
)
from headrace.errors import DamageError


def some_lineage() -> LineageColumns:
    lineage = LineageColumns()
    for row in range(3):
        lineage.add(
            document_id=None if row == 1 else f"d{row}",
            source="s3://bucket/a.parquet",
            row_group=0,
            row=row,
            byte_offset=None,
            text_bytes=5,
            tokens=2 + row,
            text_hash=text_hash(b"hello"),
        )
    return lineage


def encoded(lineage: LineageColumns) -> bytes:
    writer = LineageWriter()
    writer.extend(lineage, 0, len(lineage.row))
    return writer.to_parquet()


def test_what_is_written_reads_back_with_the_types_of_the_page() -> None:
    data = encoded(some_lineage())
    table = read_lineage(data, "here")
    assert table.schema == SCHEMA
    assert table["document_id"].to_pylist() == ["d0", None, "d2"]
    assert table["tokens"].to_pylist() == [2, 3, 4]
    assert table["text_hash"][0].as_py().hex() == "2cf24dba5fb0a30e26e83b2ac5b9e29e"
    assert read_lineage(data, "here", ["tokens"]).column_names == ["tokens"]


def test_the_same_rows_are_the_same_bytes() -> None:
    assert encoded(some_lineage()) == encoded(some_lineage())


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 200])
def test_bytes_depend_on_the_rows_and_not_on_how_they_came(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Row groups are written as they fill; the file is the one of a table written whole."""
    monkeypatch.setattr("headrace.dataeng.lineage._ROW_GROUP", 64)
    lineage = LineageColumns()
    for row in range(count):
        lineage.add(
            document_id=f"d{row}", source=f"{row // 50}.parquet", row_group=row // 50, row=row, byte_offset=None,
            text_bytes=row, tokens=row, text_hash=text_hash(b"%d" % row),
        )  # fmt: skip
    whole = encode_table(pa.table({name: getattr(lineage, name) for name in SCHEMA.names}, SCHEMA))
    for step in (1, 10, 64, 1000):
        writer = LineageWriter()
        for begin in range(0, count, step):
            writer.extend(lineage, begin, min(begin + step, count))
            assert len(writer._held.row) <= 64
        assert writer.to_parquet() == whole
    assert pq.read_metadata(pa.BufferReader(whole)).num_row_groups == -(-count // 64)


def test_a_part_of_the_columns_is_what_it_was() -> None:
    part = LineageColumns()
    part.extend(some_lineage(), 1, 3)
    assert (part.row, part.document_id) == ([1, 2], [None, "d2"])


def test_pages_have_checksums() -> None:
    data = bytearray(encoded(some_lineage()))
    meta = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0).column(3)
    data[meta.data_page_offset + meta.total_compressed_size - 2] ^= 1
    with pytest.raises(DamageError, match="here: not a lineage file"):
        read_lineage(bytes(data), "here")


@pytest.mark.parametrize(
    "table",
    [
        None,
        pa.table({"row": [1]}),
        pa.table({**{name: [None] for name in SCHEMA.names}, "row": ["not a number"]}),
    ],
)
def test_what_is_not_lineage_is_damage(table: Any) -> None:
    with pytest.raises(DamageError):
        read_lineage(b"" if table is None else encode_table(table), "here")


def test_a_reject_in_words_says_where_it_is() -> None:
    rejects = RejectColumns()
    rejects.add("a.parquet", 3, 1_000, None, "null")
    rejects.add("b.tfrecord", None, 2, 5_000, "damaged")
    assert rejects.describe(0) == "a.parquet: row group 3, row 1,000: null"
    assert rejects.describe(1) == "b.tfrecord: record 2 at byte 5,000: damaged"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ((None, 1_000, None), "row 1,000"),
        ((2, 7, None), "row group 2, row 7"),
        ((None, 7, 4_096), "record 7 at byte 4,096"),
        ((2, 7, 4_096), "record 7 of range 2, at byte 4,096"),
    ],
)
def test_a_place_in_a_source_is_said_in_words(where: tuple[int | None, int, int | None], words: str) -> None:
    assert place(*where) == words
