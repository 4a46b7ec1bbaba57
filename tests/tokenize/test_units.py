from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.sources.base import Slice, SourceFile
from headrace.tokenize.units import plan_units, unit_bytes

some_sizes = st.lists(st.lists(st.integers(0, 100), max_size=8), max_size=8)


def sources_of(sizes: list[list[int]]) -> list[SourceFile]:
    return [
        SourceFile(
            uri=f"{file}",
            name=f"{file}",
            format="parquet",
            size=1,
            fingerprint="",
            num_rows=len(groups),
            slices=tuple(
                Slice(file=file, row_group=group, num_rows=1, text_bytes=size)
                for group, size in enumerate(groups)
            ),
        )
        for file, groups in enumerate(sizes)
    ]


@given(sizes=some_sizes, unit_bytes=st.integers(1, 300))
def test_units_are_all_slices_in_order_none_too_large_unless_it_is_one_slice(
    sizes: list[list[int]], unit_bytes: int
) -> None:
    sources = sources_of(sizes)
    units = plan_units(sources, unit_bytes)
    assert [part for unit in units for part in unit.slices] == [p for s in sources for p in s.slices]
    assert [unit.index for unit in units] == list(range(len(units)))
    assert all(unit.slices for unit in units)
    assert all(unit.text_bytes <= unit_bytes or len(unit.slices) == 1 for unit in units)


@given(sizes=some_sizes, more=some_sizes, unit_bytes=st.integers(1, 300))
def test_more_sources_at_the_end_leave_all_units_but_the_last(
    sizes: list[list[int]], more: list[list[int]], unit_bytes: int
) -> None:
    before, after = (
        plan_units(sources_of(sizes), unit_bytes),
        plan_units(sources_of(sizes + more), unit_bytes),
    )
    assert after[: max(len(before) - 1, 0)] == before[:-1]


MIB = 1 << 20


@pytest.mark.parametrize(
    ("text_bytes", "expected"),
    [
        (0, 4 * MIB),
        (100 * MIB, 4 * MIB),  # 25 units: a small corpus has work for all cores
        (512 * MIB + 1, 4 * MIB + 1),
        (2**30, 8 * MIB),
        (16 * 2**30, 128 * MIB),
        (2**43, 128 * MIB),  # a large one fills its shards
    ],
)
def test_a_unit_holds_a_share_of_the_corpus_but_no_more_than_fills_its_shards(
    text_bytes: int, expected: int
) -> None:
    assert unit_bytes(sources_of([[text_bytes]]), 64 * MIB) == expected


@given(sizes=some_sizes, shard_bytes=st.integers(1024, 2**32 - 1))
def test_small_shards_make_small_units(sizes: list[list[int]], shard_bytes: int) -> None:
    assert unit_bytes(sources_of(sizes), shard_bytes) <= 2 * shard_bytes
