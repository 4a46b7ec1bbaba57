from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from headrace.dataeng.sources.base import read_slice
from headrace.dataeng.sources.discover import discover
from headrace.errors import HeadraceError, InputError
from tests.dataeng.sources.reading import read_all

TEXTS = ["one", None, "", " ", "two\0", "\N{GRINNING FACE}"]
GOOD = ["one", "two\0", "\N{GRINNING FACE}"]
FORMATS = ["file", "stream"]


def write(path: Path, table: Any, kind: str, rows: int | None = None, compression: str | None = None) -> Path:
    """`table` in record batches of `rows`."""
    options = pa.ipc.IpcWriteOptions(compression=compression)
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(str(path), table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=rows):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "layout",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_every_layout_and_compression_of_text_reads_the_same(
    tmp_path: Path, kind: str, layout: Any, compression: str | None
) -> None:
    table = pa.table({"text": pa.array(TEXTS, pa.string()).cast(layout), "other": list(range(6))})
    rows = read_all(write(tmp_path / "a.arrow", table, kind, compression=compression))
    assert rows.texts == GOOD
    assert list(rows.rejects.values()) == ["null", "empty", "blank"]


@pytest.mark.parametrize("kind", FORMATS)
@given(texts=st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=60), size=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_every_row_is_read_once_whatever_the_record_batches(
    tmp_path_factory: pytest.TempPathFactory, kind: str, texts: list[str | None], size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{kind}.arrow"
    table = pa.table({"text": pa.array(texts, pa.string()), "id": [str(n) for n in range(len(texts))]})
    rows = read_all(write(path, table, kind, rows=size), id_column="id")
    kept = {str(n): text for n, text in enumerate(texts) if text is not None and text.encode().strip()}
    assert dict(zip(rows.ids, rows.texts, strict=True)) == kept
    assert len(rows.rejects) == len(texts) - len(kept)


def test_each_record_batch_of_a_file_is_a_slice_and_a_stream_is_one(tmp_path: Path) -> None:
    table = pa.table({"text": ["x"] * 10})
    file = discover([str(write(tmp_path / "a.arrow", table, "file", rows=3))]).sources[0]
    stream = discover([str(write(tmp_path / "b.arrow", table, "stream", rows=3))]).sources[0]
    assert [part.row_group for part in file.slices] == [0, 1, 2, 3]
    assert [part.row_group for part in stream.slices] == [None]


def test_feather_files_are_arrow_files_and_version_1_is_refused(tmp_path: Path) -> None:
    table = pa.table({"text": ["x", "y"]})
    feather.write_feather(table, tmp_path / "two.feather")
    assert read_all(tmp_path / "two.feather").texts == ["x", "y"]
    (tmp_path / "one.feather").write_bytes(b"FEA1" + bytes(60))
    with pytest.raises(InputError, match="Feather version 1 data"):
        discover([str(tmp_path / "one.feather")])


def test_binary_is_text_only_when_it_is_named_and_is_checked_by_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.arrow", pa.table({"text": [b"fine", b"caf\xe9"]}), "file")
    with pytest.raises(InputError, match="say --text-column text"):
        discover([str(path)])
    rows = read_all(path, text_column="text")
    assert (rows.texts, rows.rejects) == (["fine"], {(0, 1): "not_utf8"})


def test_a_string_column_that_is_not_utf8_is_rejected_by_row(tmp_path: Path) -> None:
    offsets = pa.array([0, 4, 8, 11], pa.int32()).buffers()[1]
    lying = pa.Array.from_buffers(
        pa.string(), 3, [None, offsets, pa.py_buffer(b"good" + b"caf\xe9" + b"end")]
    )
    rows = read_all(write(tmp_path / "a.arrow", pa.table({"text": lying}), "file"))
    assert (rows.texts, rows.rejects) == (["good", "end"], {(0, 1): "not_utf8"})


def test_a_text_in_structs_is_named_by_its_path_and_lists_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([{"data": {"body": "x"}, "list": ["y"]}, {"data": None, "list": None}])
    path = write(tmp_path / "a.arrow", table, "file")
    rows = read_all(path, text_column="data.body")
    assert (rows.texts, rows.rejects) == (["x"], {(0, 1): "null"})
    with pytest.raises(InputError, match=r"column 'list' is list<"):
        discover([str(path)], text_column="list")


@pytest.mark.parametrize("kind", FORMATS)
def test_zero_batches_and_zero_rows_are_legal(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("text", pa.string())])
    assert read_all(write(tmp_path / "a.arrow", schema.empty_table(), kind)).texts == []


@pytest.mark.parametrize("kind", FORMATS)
def test_a_cut_file_is_named(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a.arrow", pa.table({"text": ["x" * 100] * 100}), kind, rows=10)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(HeadraceError) as caught:
        read_all(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", FORMATS)
@given(at=st.integers(0, 100_000), byte=st.integers(1, 255))
@settings(max_examples=150, deadline=None)
def test_a_flipped_byte_gives_no_error_but_ours_and_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, kind: str, at: int, byte: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"flip-{kind}.arrow"
    write(path, pa.table({"text": [f"row number {n}" for n in range(60)]}), kind, rows=20)
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= byte
    path.write_bytes(data)
    message = str(path)
    try:
        found = discover([str(path)], text_column="text")
        for part in found.sources[0].slices:
            list(read_slice(found.sources[0], part, found.columns))
    except HeadraceError as error:
        message = str(error)
    assert str(path) in message


def test_a_file_in_a_store_is_read_like_a_local_one(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    path = write(tmp_path / "a.arrow", pa.table({"text": ["x", "y"]}), "file", rows=1)
    memory.pipe("/arrows/a.arrow", path.read_bytes())
    assert read_all("memory://arrows/a.arrow").texts == ["x", "y"]
    memory.rm("/arrows", recursive=True)
