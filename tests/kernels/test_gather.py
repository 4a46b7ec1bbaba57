import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.mds import encode_shard
from headrace.kernels.gather import boundaries, document_ends, gather_row, row_reference

documents_of = st.lists(
    st.one_of(
        st.lists(st.integers(0, 65535), min_size=1, max_size=12),
        st.integers(250, 260).map(lambda n: list(range(n))),  # where the length grows to two bytes
    ),
    min_size=1,
    max_size=8,
)


def shard_of(documents: list[list[int]], dtype: str) -> np.ndarray:
    lengths = np.array([len(d) for d in documents], np.int64)
    flat = np.array([t for d in documents for t in d], dtype)
    return np.frombuffer(encode_shard(flat, lengths, 1 << 20), np.uint8)


@given(documents_of, st.sampled_from(["uint16", "uint32"]), st.booleans(), st.data())
@settings(deadline=None)
def test_a_row_equals_the_definition(
    documents: list[list[int]], dtype: str, mask: bool, data: st.DataObject
) -> None:
    total = sum(map(len, documents))
    if total < 2:
        documents, total = [*documents, [1, 2]], total + 2
    file = shard_of(documents, dtype)
    ends = np.empty(len(documents), np.uint32)
    itemsize = np.dtype(dtype).itemsize
    assert document_ends(file, itemsize, ends) == -1
    assert ends.tolist() == np.cumsum([len(d) for d in documents]).tolist()
    length = data.draw(st.integers(1, total - 1))
    first = data.draw(st.integers(0, total - 1 - length))
    sample = data.draw(st.integers(0, 2**62))
    rows = [np.full(length, -7, np.int64) for _ in range(3)]  # poisoned: an unwritten element shows
    pieces, largest, digest = gather_row(file, itemsize, ends, first, sample, mask, *rows)
    expected = row_reference(documents, first, length, sample, mask)
    assert (*[row.tolist() for row in rows], digest) == expected
    assert pieces == expected[2].count(0)
    stream = [t for d in documents for t in d]
    assert largest == max(stream[first : first + length + 1])


def test_a_row_of_four_byte_tokens_keeps_large_ids() -> None:
    documents = [[2**31, 2**32 - 1, 0]]
    file, ends = shard_of(documents, "uint32"), np.empty(1, np.uint32)
    document_ends(file, 4, ends)
    rows = [np.empty(2, np.int64) for _ in range(3)]
    _, largest, _ = gather_row(file, 4, ends, 0, 0, True, *rows)
    assert rows[0].tolist() == [2**31, 2**32 - 1]
    assert largest == 2**32 - 1


@pytest.mark.parametrize("cut", [0, 3, 7, 8, 20, 60, 150])
def test_a_truncated_shard_is_noticed_without_reading_past_its_end(cut: int) -> None:
    file = shard_of([[1, 2, 3], [4, 5]], "uint16")
    assert cut < len(file)
    assert document_ends(file[:cut].copy(), 2, np.empty(2, np.uint32)) >= 0


@given(st.data())
@settings(deadline=None)
def test_an_altered_header_is_noticed_or_leaves_the_counts_in_bounds(data: st.DataObject) -> None:
    file = shard_of([[1, 2, 3], [4, 5], [6]], "uint16").copy()
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] ^= data.draw(st.integers(1, 255))
    ends = np.empty(3, np.uint32)
    if document_ends(file, 2, ends) == -1:
        assert int(ends[-1]) <= len(file) // 2


def test_boundaries_are_where_positions_restart() -> None:
    positions = np.array([[0, 1, 0], [0, 0, 1]], np.int64)
    out = np.empty(5, np.int32)
    boundaries(positions, out)
    assert out.tolist() == [0, 2, 3, 4, 6]
