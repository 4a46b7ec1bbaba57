import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.manifests.shard_table import ShardRow, ShardTable

hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
names = st.text("abc019._-", max_size=20).map(lambda s: "s" + s)
counts = st.integers(0, 2**33 - 2)
rows = st.builds(
    ShardRow,
    unit=counts,
    name=names,
    raw_bytes=counts,
    raw_sha256=hashes,
    stored_bytes=counts,
    stored_sha256=hashes,
    documents=counts,
    tokens=counts,
    lineage=names,
    lineage_sha256=hashes,
)


@given(st.lists(rows, max_size=6))
@settings(deadline=None)
def test_rows_survive_the_file(given_rows: list[ShardRow]) -> None:
    table = ShardTable.from_rows(given_rows)
    again = ShardTable.from_parquet(table.to_parquet(), "t")
    assert again.rows() == given_rows
    assert again.digest == table.digest
    assert again.tokens.tolist() == [row.tokens for row in given_rows]


@given(st.lists(rows, min_size=1, max_size=4), st.data())
@settings(deadline=None)
def test_the_digest_changes_with_any_cell_and_the_content_only_with_content(
    given_rows: list[ShardRow], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(given_rows) - 1))
    column = data.draw(st.sampled_from([f.name for f in dataclasses.fields(ShardRow)]))
    old = getattr(given_rows[index], column)
    if isinstance(old, int):
        new: Any = old + 1
    else:
        new = ("0" if old[0] != "0" else "1") + old[1:] if len(old) == 64 else old + "x"
    changed = list(given_rows)
    changed[index] = dataclasses.replace(given_rows[index], **{column: new})
    before, after = ShardTable.from_rows(given_rows), ShardTable.from_rows(changed)
    assert before.digest != after.digest
    content = column in ("raw_sha256", "tokens", "documents")
    assert (before.content_digest != after.content_digest) == content


def test_the_digest_does_not_depend_on_how_arrow_chunks_the_columns() -> None:
    row = ShardRow(
        unit=0, name="s", raw_bytes=1, raw_sha256="ab" * 32, stored_bytes=1, stored_sha256="cd" * 32,
        documents=1, tokens=1, lineage="l", lineage_sha256="ef" * 32,
    )  # fmt: skip
    whole = ShardTable.from_rows([row, row, row])
    table = whole._table
    pieces = ShardTable(pa.concat_tables([table.slice(0, 1), table.slice(1, 2)]))
    assert pieces.digest == whole.digest


@pytest.mark.parametrize("name", ["../escape", "/etc/passwd", "a/b", "", ".tmp-x", "a\nb"])
def test_a_name_that_leaves_the_dataset_is_refused(name: str) -> None:
    row = ShardRow(
        unit=0, name="s", raw_bytes=1, raw_sha256="ab" * 32, stored_bytes=1, stored_sha256="cd" * 32,
        documents=1, tokens=1, lineage=name, lineage_sha256="ef" * 32,
    )  # fmt: skip
    with pytest.raises(InputError, match="table"):
        ShardTable.from_parquet(ShardTable.from_rows([row]).to_parquet(), "table")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100])
def test_bytes_that_are_no_table_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="not a headrace shard table"):
        ShardTable.from_parquet(data, "table")


@pytest.mark.parametrize("column", ["name", "tokens", "raw_sha256"])
def test_a_table_with_a_null_or_a_column_twice_is_refused(column: str) -> None:
    row = ShardRow(
        unit=0, name="s", raw_bytes=1, raw_sha256="ab" * 32, stored_bytes=1, stored_sha256="cd" * 32,
        documents=1, tokens=1, lineage="l", lineage_sha256="ef" * 32,
    )  # fmt: skip
    table = ShardTable.from_rows([row])._table
    index = table.schema.get_field_index(column)
    nulls = pa.nulls(1, table.schema.field(column).type)
    for bad in (table.set_column(index, column, nulls), table.append_column(column, table[column])):
        sink = pa.BufferOutputStream()
        pq.write_table(bad, sink)
        with pytest.raises(InputError, match="table"):
            ShardTable.from_parquet(bytes(sink.getvalue()), "table")


def test_another_parquet_file_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"tokens": [1]}), sink)
    with pytest.raises(InputError, match="not a headrace shard table"):
        ShardTable.from_parquet(bytes(sink.getvalue()), "table")


@pytest.mark.parametrize("column", ["unit", "raw_bytes", "stored_bytes", "documents", "tokens"])
@pytest.mark.parametrize("number", [-1, 2**33, 2**63 - 1])
def test_a_number_that_no_shard_has_is_refused(column: str, number: int) -> None:
    """Two shards of 2**62 tokens would have a negative sum."""
    row = ShardRow(
        unit=0, name="s", raw_bytes=1, raw_sha256="ab" * 32, stored_bytes=1, stored_sha256="cd" * 32,
        documents=1, tokens=1, lineage="l", lineage_sha256="ef" * 32,
    )  # fmt: skip
    altered = dataclasses.replace(row, **{column: number})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"column {column} has numbers"):
        ShardTable.from_parquet(ShardTable.from_rows([row, altered]).to_parquet(), "table")


def test_a_null_in_the_table_is_refused() -> None:
    table = ShardTable.from_rows([])._table
    nulls = pa.table({name: pa.nulls(1, table.schema.field(name).type) for name in table.column_names})
    sink = pa.BufferOutputStream()
    pq.write_table(nulls, sink)
    with pytest.raises(InputError, match="not a headrace shard table"):
        ShardTable.from_parquet(bytes(sink.getvalue()), "table")


@given(st.lists(rows, min_size=1, max_size=5), st.dictionaries(st.integers(0, 4), st.lists(rows, max_size=2)))
@settings(deadline=None)
def test_rows_are_replaced_by_others_in_their_place(
    given_rows: list[ShardRow], by_position: dict[int, list[ShardRow]]
) -> None:
    others = {position: new for position, new in by_position.items() if position < len(given_rows)}
    expected = [new for position, row in enumerate(given_rows) for new in others.get(position, [row])]
    found = ShardTable.from_rows(given_rows).replaced(others)
    assert found.rows() == expected
    assert found.digest == ShardTable.from_rows(expected).digest
    assert found.to_parquet() == ShardTable.from_rows(expected).to_parquet()
    assert sorted(found.names()) == sorted(name for row in expected for name in (row.name, row.lineage))


def test_tables_stand_one_behind_the_other() -> None:
    row = ShardRow(
        unit=1, name="s", raw_bytes=1, raw_sha256="00" * 32, stored_bytes=1, stored_sha256="00" * 32, documents=1,
        tokens=1, lineage="l", lineage_sha256="00" * 32,
    )  # fmt: skip
    other = dataclasses.replace(row, name="t")
    both = ShardTable.concatenate([ShardTable.from_rows([row]), ShardTable.from_rows([other, row])])
    assert both.rows() == [row, other, row]
