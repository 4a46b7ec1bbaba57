from __future__ import annotations

from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.sources.base import Columns, SourceDamage, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.sources.parquet_limits import Excess, Pages, check_schema

TEXTS = [f"{number} mill wheel " * 30 for number in range(2_000)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int, int]:
    """A file of many pages, and where its only column chunk begins and ends."""
    path = tmp_path_factory.mktemp("pages") / "a.parquet"
    pq.write_table(
        pa.table({"text": TEXTS}),
        path,
        use_dictionary=False,
        data_page_size=4_000,
        write_page_checksum=True,
        write_batch_size=16,
    )
    chunk = pq.read_metadata(path).row_group(0).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    return path.read_bytes(), begin, begin + chunk.total_compressed_size


@pytest.mark.parametrize("step", [1, 7, 100, 4_096, 1 << 20])
def test_every_page_is_followed_to_the_end_of_the_chunk_however_it_comes_by(
    file: tuple[bytes, int, int], step: int
) -> None:
    data, begin, end = file
    pages = Pages(begin, end, 1 << 20)
    seen = set()
    for at in range(0, len(data), step):
        pages.feed(at, data[at : at + step])
        seen.add(pages.next_header)
    assert pages.next_header == end
    assert pages.is_done
    assert len(seen) > 10 or step > 100


def test_a_page_over_the_limit_is_named_by_its_place() -> None:
    header = (
        b"\x15\x00" + b"\x15\x80\x89\x7a" + b"\x15\x14" + b"\x00"
    )  # a data page: 1,000,000 bytes out of 10
    pages = Pages(100, 200, 10_000)
    pages.feed(100, header[:4])
    with pytest.raises(
        Excess, match=r"page at byte 100 unpacks from 10 bytes to 1,000,000, and at most 10,000"
    ):
        pages.feed(104, header[4:])
    Pages(100, 200, 1_000_000).feed(100, header)


def test_a_remote_file_is_looked_at_as_it_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [" " * 2_000_000, "x"]}), tmp_path / "a.parquet", compression="zstd")
    memory = fsspec.filesystem("memory")
    memory.pipe("/bombs/a.parquet", (tmp_path / "a.parquet").read_bytes())
    monkeypatch.setattr(Columns, "max_row_bytes", 1_000_000)
    for place in ("memory://bombs/a.parquet", str(tmp_path / "a.parquet")):
        found = discover([place])
        with pytest.raises(
            SourceDamage, match=r"a\.parquet: row group 0 \(2 rows\) is not read: the page at byte 4 "
        ):
            list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))
    memory.rm("/bombs", recursive=True)


@given(data=st.binary(max_size=200))
def test_what_is_no_header_is_left_to_the_reader_that_names_it(data: bytes) -> None:
    check_schema(data)
    Pages(0, len(data), 1 << 64).feed(0, data)


def test_a_lost_block_of_zeros_is_no_row_of_headers() -> None:
    pages = Pages(0, 1 << 30, 1 << 20)
    pages.feed(0, bytes(1 << 16))
    assert pages.is_done
