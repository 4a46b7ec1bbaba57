from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng import lineage
from headrace.dataeng.lineage import (
    SCHEMA,
    LineageWriter,
    encode_table,
    lineage_rows,
    place,
    read_lineage,
    text_hash,
    text_hashes,
)
from headrace.errors import DamageError


def some_rows(first: int = 0, count: int = 3) -> Any:
    rows = np.arange(first, first + count)
    return lineage_rows(
        source="s3://bucket/a.parquet",
        row_group=0,
        row=rows,
        byte_offset=None,
        document_id=pa.array([None if row == 1 else f"d{row}" for row in rows.tolist()], pa.string()),
        text_bytes=np.full(count, 5),
        tokens=2 + rows,
        text_hash=text_hashes(pa.array(["hello"] * count)),
    )


def lineage_file(batches: list[Any]) -> bytes:
    writer = LineageWriter()
    for batch in batches:
        writer.add(batch)
        assert writer._num_held <= lineage._ROW_GROUP
    return writer.finish()


def test_what_is_written_reads_back_with_the_types_of_the_page() -> None:
    data = lineage_file([some_rows()])
    table = read_lineage(data, "here")
    assert table.schema == SCHEMA
    assert table["document_id"].to_pylist() == ["d0", None, "d2"]
    assert table["tokens"].to_pylist() == [2, 3, 4]
    assert table["text_hash"][0].as_py().hex() == "2cf24dba5fb0a30e26e83b2ac5b9e29e"
    assert read_lineage(data, "here", ["tokens"]).column_names == ["tokens"]


def test_the_same_rows_are_the_same_bytes_however_they_arrive() -> None:
    assert lineage_file([some_rows()]) == lineage_file([some_rows(0, 2), some_rows(2, 1)])


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 200])
def test_row_groups_are_written_as_they_fill(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """And the file is the one of a table written whole, so that memory does not follow the number of documents."""
    monkeypatch.setattr(lineage, "_ROW_GROUP", 64)
    whole = encode_table(pa.Table.from_batches([some_rows(0, count)]))
    for step in (1, 10, 64, 1000):
        batches = [some_rows(begin, min(step, count - begin)) for begin in range(0, count, step)]
        assert lineage_file(batches) == whole
    assert pq.read_metadata(pa.BufferReader(whole)).num_row_groups == -(-count // 64)


@given(texts=st.lists(st.text(max_size=8), max_size=20), cut=st.integers(0, 20))
def test_hashes_of_a_column_are_those_of_its_texts(texts: list[str], cut: int) -> None:
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(texts, kind).slice(cut)
        assert text_hashes(column).to_pylist() == [text_hash(text.encode()) for text in texts[cut:]]


def test_pages_have_checksums() -> None:
    data = bytearray(lineage_file([some_rows()]))
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
