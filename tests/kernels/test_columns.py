from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.columns import (
    FINE,
    copy_ranges,
    copy_ranges_reference,
    locate_column,
    locate_column_reference,
)


def shard(samples: list[list[bytes]], sizes: list[int]) -> bytes:
    bodies = [
        b"".join(
            [len(value).to_bytes(4, "little") for value, size in zip(sample, sizes, strict=True) if not size]
        )
        + b"".join(sample)
        for sample in samples
    ]
    offsets = np.cumsum([8 + 4 * len(samples) + 3, *map(len, bodies)])
    return b"".join([len(samples).to_bytes(4, "little"), offsets.astype("<u4").tobytes(), b"{:}", *bodies])


@given(st.data())
def test_the_kernel_says_what_its_reference_says_of_good_and_of_damaged_samples(data: st.DataObject) -> None:
    fixed = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    one = st.tuples(*[st.binary(min_size=size, max_size=size or 6) for size in fixed]).map(list)
    samples = data.draw(st.lists(one, min_size=1, max_size=4))
    raw = bytearray(shard(samples, fixed))
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        raw = raw[: max(8 + 4 * len(samples), data.draw(st.integers(0, len(raw))))]
    for column in range(len(fixed)):
        begins, ends = np.empty(len(samples), np.int64), np.empty(len(samples), np.int64)
        found, _ = locate_column(
            np.frombuffer(raw, np.uint8), np.array(fixed, np.int64), column, begins, ends
        )
        ranges = list(zip(begins.tolist(), ends.tolist(), strict=True)) if found == FINE else None
        assert ranges == locate_column_reference(bytes(raw), fixed, column, len(samples))


@given(st.binary(max_size=30), st.data())
def test_ranges_are_copied_one_after_another(data: bytes, draw: st.DataObject) -> None:
    pairs = draw.draw(st.lists(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
    begins, ends = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    wanted = copy_ranges_reference(data, begins, ends)
    out = np.empty(len(wanted), np.uint8)
    copy_ranges(np.frombuffer(data, np.uint8), np.array(begins, np.int64), np.array(ends, np.int64), out)
    assert out.tobytes() == wanted
