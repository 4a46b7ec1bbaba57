from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.sources import parquet
from headrace.dataeng.sources.base import SourceDamage, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.errors import HeadraceError, InputError
from tests.dataeng.sources.reading import read_all

TEXTS = ["one", None, "", " ", "two\0", "\N{GRINNING FACE}"]
GOOD = ["one", "two\0", "\N{GRINNING FACE}"]
REJECTS = {(0, 1): "null", (0, 2): "empty", (0, 3): "blank"}


def write(path: Path, text: Any, **options: Any) -> Path:
    pq.write_table(pa.table({"text": text}), path, write_page_checksum=True, **options)
    return path


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_every_layout_of_text_reads_the_same(tmp_path: Path, kind: Any) -> None:
    column = pa.array(TEXTS, pa.string()).cast(kind)
    rows = read_all(write(tmp_path / "a.parquet", column))
    assert (rows.texts, rows.rejects) == (GOOD, REJECTS)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_binary_is_text_only_when_it_is_named(tmp_path: Path, kind: Any) -> None:
    column = pa.array([t.encode() if t is not None else None for t in TEXTS] + [b"caf\xe9"], kind)
    path = write(tmp_path / "a.parquet", column)
    with pytest.raises(InputError, match="say --text-column text"):
        discover([str(path)])
    rows = read_all(path, text_column="text")
    assert (rows.texts, rows.rejects) == (GOOD, {**REJECTS, (0, 6): "not_utf8"})


def test_a_string_column_that_is_not_utf8_is_rejected_by_row(tmp_path: Path) -> None:
    offsets = pa.array([0, 4, 8, 11], pa.int32()).buffers()[1]
    data = pa.py_buffer(b"good" + b"caf\xe9" + b"end")
    lying = pa.Array.from_buffers(pa.string(), 3, [None, offsets, data])
    rows = read_all(write(tmp_path / "a.parquet", lying))
    assert (rows.texts, rows.rejects) == (["good", "end"], {(0, 1): "not_utf8"})


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_every_codec_and_page_version_reads_the_same(tmp_path: Path, codec: str, version: str) -> None:
    path = write(
        tmp_path / "a.parquet", TEXTS, compression=codec, data_page_version=version, use_dictionary=False
    )
    assert read_all(path).texts == GOOD


@given(texts=st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=60), group=st.integers(1, 20))
@settings(max_examples=40)
def test_every_row_is_read_once_whatever_the_row_groups(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], group: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "groups.parquet"
    rows = read_all(write(path, pa.array(texts, pa.string()), row_group_size=group))
    kept = [text for text in texts if text is not None and text.encode().strip()]
    assert rows.texts == kept
    rejected = {(n // group, n % group) for n, t in enumerate(texts) if t is None or not t.encode().strip()}
    assert set(rows.rejects) == rejected


def test_ids_are_text_or_integers_and_may_be_null(tmp_path: Path) -> None:
    cases: list[list[Any]] = [["a", None, "c"], [7, None, -1]]
    for number, ids in enumerate(cases):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"key": ids, "text": ["x", "y", "z"]}), path)
        assert read_all(path, id_column="key").ids == [None if i is None else str(i) for i in ids]


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    """The other column is destroyed; nobody notices."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"other": ["#" * 1000] * 10, "text": ["fine"] * 10}),
        path,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    data = bytearray(path.read_bytes())
    at = data.find(b"#" * 100)
    data[at : at + 50] = bytes(50)
    path.write_bytes(data)
    assert read_all(path).texts == ["fine"] * 10


def test_a_damaged_page_is_named_with_its_file_and_row_group_and_spares_the_others(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        [f"row {n} " + "~" * 50 for n in range(40)],
        row_group_size=10,
        use_dictionary=False,
        compression="none",
    )
    data = bytearray(path.read_bytes())
    at = data.find(b"row 25 ")
    data[at + 10] ^= 1
    path.write_bytes(data)
    found = discover([str(path)])
    source = found.sources[0]
    for part in source.slices:
        if part.row_group == 2:
            with pytest.raises(SourceDamage, match=r"a\.parquet: row group 2 \(10 rows\) cannot be read"):
                list(read_slice(source, part, found.columns))
        else:
            batches = list(read_slice(source, part, found.columns))
            assert sum(len(batch.texts) for batch in batches) == 10


@given(at=st.integers(0, 10_000), byte=st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_a_flipped_byte_never_gives_another_text(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flip.parquet"
    texts = [f"row number {n}" for n in range(60)]
    write(path, texts, row_group_size=20, compression="zstd")
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    # The footer has no checksum of its own; Parquet cannot see every flip there, and nor can we.
    data[at % (len(data) - footer)] ^= byte
    path.write_bytes(data)
    kept: list[str] = []
    message = str(path)
    try:
        found = discover([str(path)])
        for part in found.sources[0].slices:
            try:
                for batch in read_slice(found.sources[0], part, found.columns):
                    kept += [text for text in batch.texts.to_pylist() if text is not None]
            except SourceDamage:
                continue
    except HeadraceError as error:
        message = str(error)
    assert str(path) in message
    remaining = iter(texts)
    assert all(text in remaining for text in kept)


def test_zero_rows_and_zero_row_groups_are_legal(tmp_path: Path) -> None:
    assert read_all(write(tmp_path / "a.parquet", pa.array([], pa.string()))).texts == []
    with pq.ParquetWriter(tmp_path / "b.parquet", pa.schema([("text", pa.string())])) as writer:
        writer.write_table(pa.table({"text": ["x"]}))
        writer.write_table(pa.table({"text": pa.array([], pa.string())}))
        writer.write_table(pa.table({"text": ["y"]}))
    assert read_all(tmp_path / "b.parquet").texts == ["x", "y"]


def test_a_column_of_nothing_but_nulls_is_nothing_but_rejects(tmp_path: Path) -> None:
    rows = read_all(write(tmp_path / "a.parquet", pa.nulls(3)))
    assert rows.rejects == {(0, 0): "null", (0, 1): "null", (0, 2): "null"}


def test_a_file_that_changed_after_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["one", "two"])
    found = discover([str(path)])
    write(path, ["three", "four", "five"])
    with pytest.raises(InputError, match="not the file that was planned"):
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))


@pytest.mark.timeout(60)
def test_memory_does_not_follow_the_size_of_a_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.array(["0123456789" * 10_000] * 2_000)  # 200 MB in one row group
    # A page is the least that can be read; by default this writer makes one of 1,024 rows, 100 MB.
    options: dict[str, Any] = {"use_dictionary": False, "compression": "zstd", "write_batch_size": 8}
    pq.write_table(pa.table({"text": text}), path, **options)
    del text
    found = discover([str(path)])
    source, part = found.sources[0], found.sources[0].slices[0]
    before, peak, rows = pa.total_allocated_bytes(), 0, 0
    for batch in read_slice(source, part, found.columns):
        rows += len(batch.texts)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == 2_000
    assert peak < 60 << 20


@pytest.mark.timeout(60)
def test_a_file_of_very_many_columns_is_planned_in_proportion(tmp_path: Path) -> None:
    wide = {f"c{number}": [1] for number in range(20_000)}
    pq.write_table(pa.table({**wide, "text": ["one"]}), tmp_path / "a.parquet")
    began = time.monotonic()
    assert discover([str(tmp_path / "a.parquet")]).columns.text == "text"
    assert time.monotonic() - began < 10


def test_what_a_dictionary_expands_to_is_never_made(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    entries = pa.array(["x" * 10_000_000, "short"])
    indices = pa.array([0, 1] * 50_000, pa.int32())  # 500 GB of text in 10 MB
    table = pa.table({"text": pa.DictionaryArray.from_arrays(indices, entries)})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=1 << 30)
    found = discover([str(path)])
    batches = read_slice(found.sources[0], found.sources[0].slices[0], found.columns)
    before = pa.total_allocated_bytes()
    rows = 0
    for batch in itertools.islice(batches, 40):
        assert batch.first_row == rows
        rows += len(batch.texts)
        assert pa.total_allocated_bytes() - before < 128 << 20
    assert rows < 500


@given(
    texts=st.lists(st.sampled_from(["", "a", "b" * 40, "c" * 3_000, "d" * 70_000]), min_size=1, max_size=60),
    limit=st.sampled_from([1 << 10, 1 << 16, 1 << 19, 1 << 21]),
    page=st.sampled_from([100, 4_000, 1 << 20]),
)
@settings(max_examples=60, deadline=None)
def test_how_a_dictionary_is_read_changes_no_text(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], limit: int, page: int
) -> None:
    """Few rows at a time or shared, and joined again or not: as the limit on what may be in memory has it."""
    path = tmp_path_factory.getbasetemp() / "dictionary.parquet"
    table = pa.table({"text": texts})
    pq.write_table(table, path, write_batch_size=4, dictionary_pagesize_limit=page, compression="zstd")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_MAX_EXPANDED", limit)
        patch.setattr(parquet, "_GATHERED_BYTES", 50_000)
        rows = read_all(path)
    assert rows.texts == [text for text in texts if text]


def test_the_size_of_a_dictionary_is_read_off_its_page(tmp_path: Path) -> None:
    """Each entry is four bytes of length and its own."""
    for number, entries in enumerate([["a"], ["a", "b" * 100], [f"{n:08}" for n in range(50_000)]]):
        path = tmp_path / f"{number}.parquet"
        table = pa.table({"text": entries * 3})
        pq.write_table(table, path, dictionary_pagesize_limit=1 << 30, compression="zstd")
        chunk = pq.read_metadata(path).row_group(0).column(0)
        with pa.OSFile(str(path)) as file:
            assert parquet._dictionary_bytes(file, chunk) == sum(4 + len(entry) for entry in entries)


def test_a_text_in_structs_is_named_by_its_path(tmp_path: Path) -> None:
    rows = [
        {"text": {"en": "one", "n": 1}, "key": {"of": {"row": 7}}},
        {"text": None, "key": None},
        {"text": {"en": None, "n": None}, "key": {"of": None}},
        {"text": {"en": "two", "n": 2}, "key": {"of": {"row": None}}},
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
    with pytest.raises(InputError, match=r"--text-column: one of 'text\.en'"):
        discover([str(path)])
    found = read_all(path, text_column="text.en", id_column="key.of.row")
    assert (found.texts, found.ids) == (["one", "two"], ["7", None])
    assert found.rejects == {(0, 1): "null", (0, 2): "null"}


def test_a_column_whose_name_has_a_dot_comes_before_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [{"b": "nested"}], "a.b": ["named"]}), path)
    assert read_all(path, text_column="a.b").texts == ["named"]


@pytest.mark.parametrize("column", ["listed", "mapped", "deep.listed"])
def test_lists_and_maps_are_refused_by_schema(tmp_path: Path, column: str) -> None:
    path = tmp_path / "a.parquet"
    mapped = pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string()))
    table = {"text": ["x"], "listed": [["x"]], "mapped": mapped, "deep": [{"listed": ["x"]}]}
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match=rf"column '{column}' is (list|map)<"):
        discover([str(path)], text_column=column)


PEAK = """
import resource, sys
import pyarrow.compute as pc
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.sources.base import read_slice
found = discover([sys.argv[1]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = bytes_ = 0
for part in found.sources[0].slices:
    for batch in read_slice(found.sources[0], part, found.columns):
        rows += len(batch.texts)
        bytes_ += pc.sum(pc.binary_length(batch.texts)).as_py() or 0
print(rows, bytes_, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def peak_of_reading(path: Path) -> tuple[int, int, int]:
    """(rows, bytes of text, MiB by which a process grew that read all of it)."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True, timeout=170
    )
    rows, text_bytes, grown = map(int, done.stdout.split())
    return rows, text_bytes, grown


@pytest.mark.slow
def test_a_row_group_over_2_gib_is_read_in_the_memory_of_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    text = pa.chunked_array([pa.array(["0123456789abcdef" * 6_250] * 500)] * 46)  # 23,000 texts of 100 kB
    options: dict[str, Any] = {"use_dictionary": False, "compression": "zstd", "row_group_size": 1 << 20}
    pq.write_table(pa.table({"text": text}), path, **options)  # its pages are of 1,024 rows: 100 MB
    assert pq.read_metadata(path).num_row_groups == 1
    rows, text_bytes, grown = peak_of_reading(path)
    assert (rows, text_bytes) == (23_000, 2_300_000_000)
    assert grown < 500
