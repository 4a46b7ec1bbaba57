from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.mds import encode_shard, overhead_bytes
from headrace.kernels.check import FINE, check_samples, check_samples_reference

documents = st.lists(
    st.one_of(
        st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=4),
        st.integers(250, 260).map(lambda n: [n] * n),
    ),
    min_size=1,
    max_size=5,
)


def checked(raw: bytes | bytearray, dtype: str, count: int) -> tuple[list[int], int] | None:
    lengths = np.empty(count, np.int64)
    found, _, largest = check_samples(
        np.frombuffer(raw, np.uint8),
        np.dtype(dtype).itemsize,
        overhead_bytes(count, dtype, 1000),
        lengths,
    )
    return (lengths.tolist(), largest) if found == FINE else None


@given(documents, st.sampled_from(["uint16", "uint32"]), st.data())
def test_the_kernel_says_what_its_reference_says_of_good_and_of_damaged_samples(
    some: list[list[int]], dtype: str, data: st.DataObject
) -> None:
    flat = np.array([token for tokens in some for token in tokens], dtype)
    raw = bytearray(encode_shard(flat, np.array([len(tokens) for tokens in some], np.int64), 1000))
    itemsize = np.dtype(dtype).itemsize
    assert checked(raw, dtype, len(some)) == ([len(tokens) for tokens in some], int(flat.max()))
    # Anything but the number of documents and the configuration, which are the caller's to compare.
    begin = overhead_bytes(len(some), dtype, 1000)
    places = st.one_of(st.integers(8, 7 + 4 * len(some)), st.integers(begin, len(raw) - 1))
    raw[data.draw(places)] ^= data.draw(st.integers(1, 255))
    assert checked(raw, dtype, len(some)) == check_samples_reference(bytes(raw), itemsize)


def test_tokens_of_the_whole_range_are_seen() -> None:
    for dtype, largest in (("uint16", 2**16 - 1), ("uint32", 2**32 - 1)):
        raw = encode_shard(np.array([0, largest, 1], dtype), np.array([3]), 1000)
        assert checked(raw, dtype, 1) == ([3], largest)


def test_a_width_that_is_not_the_narrowest_is_refused() -> None:
    """The writer has one spelling for each length, and so one hash for each shard."""
    begin = overhead_bytes(1, "uint16", 1000)
    sample = (2 + 1 + 2).to_bytes(4, "little") + b"\x05" + (1).to_bytes(2, "little") + b"\x07\x00"
    good = bytearray(encode_shard(np.array([7], np.uint16), np.array([1]), 1000))
    raw = bytes(good[:8]) + (begin + len(sample)).to_bytes(4, "little") + bytes(good[12:begin]) + sample
    assert checked(raw, "uint16", 1) is None
    assert check_samples_reference(raw, 2) is None
