from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.sources.lines import Line, lines_of_range, split_lines

some_bytes = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r", b"\0", b"\xff"]), max_size=40).map(b"".join)


def expected_lines(data: bytes) -> list[Line]:
    lines, offset = [], 0
    for line in io.BytesIO(data):
        lines.append(Line(offset, offset + len(line), line.removesuffix(b"\n")))
        offset += len(line)
    return lines


@given(data=some_bytes, size=st.integers(1, 10))
def test_lines_are_those_of_the_whole_however_it_is_cut_into_chunks(data: bytes, size: int) -> None:
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert list(split_lines(chunks, 100)) == expected_lines(data)


@given(data=some_bytes, size=st.integers(1, 10), limit=st.integers(1, 6))
def test_a_line_over_the_limit_keeps_its_place_and_loses_its_bytes(
    data: bytes, size: int, limit: int
) -> None:
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    wanted = [
        line._replace(data=line.data if len(line.data or b"") <= limit else None)
        for line in expected_lines(data)
    ]
    assert list(split_lines(chunks, limit=limit)) == wanted


@given(data=some_bytes, size=st.integers(1, 10))
def test_ranges_that_tile_a_file_give_each_line_once_in_the_range_where_it_begins(
    data: bytes, size: int
) -> None:
    found = []
    for begin in range(0, len(data), size):
        lines = list(lines_of_range(io.BytesIO(data), begin, min(begin + size, len(data)), 100))
        assert all(begin <= line.offset < begin + size for line in lines)
        found += lines
    assert found == expected_lines(data)


class CountingFile(io.BytesIO):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.given = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.given += len(data)
        return data


def test_a_range_inside_one_long_line_reads_no_further_than_its_own_end() -> None:
    file = CountingFile(b"x" * 1000 + b"\n")
    assert list(lines_of_range(file, 100, 200, 100)) == []
    assert file.given <= 101
