from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng import lineage
from headrace.dataeng.lineage import REJECTS_SCHEMA, encode_table, place
from headrace.dataeng.rejects import ORIGINALS, Place, Rejects, join_rejects

# A slice either has byte offsets or has none, and so it is drawn with its source and row group.
SLICES = [
    Place(part=0, source="a.parquet", row_group=0),
    Place(part=1, source="a.parquet", row_group=1),
    Place(part=2, source="b.tfrecord", row_group=None),
]
ROWS = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 40)),
    st.sampled_from(["null", "empty", "length:short", "duplicate"]),
    max_size=30,
)


def originals(row: int) -> pa.Table:
    """What the document in `row` repeats, as it is told here."""
    return pa.table([["first.parquet"], [row % 3], [7 * row]], ORIGINALS)


def rejects_of(found: list[tuple[Place, int, str]]) -> Rejects:
    rejects = Rejects()
    for where, row, reason in found:
        offsets = None if where.row_group is not None else np.array([100 * row])
        rejects.add(
            where, np.array([row]), offsets, reason, originals(row) if reason == "duplicate" else None
        )
    return rejects


def table(rejects: Rejects) -> list[dict[str, Any]]:
    return pq.read_table(pa.BufferReader(rejects.to_parquet())).cast(REJECTS_SCHEMA).to_pylist()  # type: ignore[no-any-return]


@given(rows=ROWS, draw=st.randoms(use_true_random=False))
def test_whatever_order_they_are_found_in_the_file_has_them_by_slice_and_row(
    rows: dict[tuple[int, int], str], draw: Any
) -> None:
    found = [(SLICES[part], row, reason) for (part, row), reason in rows.items()]
    draw.shuffle(found)
    rejects = rejects_of(found)
    expected: list[dict[str, Any]] = [
        {
            "source": SLICES[part].source,
            "row_group": SLICES[part].row_group,
            "row": row,
            "rows": 1,
            "byte_offset": None if SLICES[part].row_group is not None else 100 * row,
            "reason": reason,
            "original_source": "first.parquet" if reason == "duplicate" else None,
            "original_row_group": row % 3 if reason == "duplicate" else None,
            "original_row": 7 * row if reason == "duplicate" else None,
        }
        for (part, row), reason in sorted(rows.items())
    ]
    assert table(rejects) == expected
    assert list(rejects.describe(5)) == [
        f"{row['source']}: {place(row['row_group'], row['row'], row['byte_offset'])}: {row['reason']}"
        for row in expected[:5]
    ]
    reasons = [row["reason"] for row in expected]
    assert rejects.counts() == {reason: reasons.count(reason) for reason in sorted(set(reasons))}


def test_rows_that_are_added_together_are_as_those_added_one_by_one() -> None:
    where = SLICES[2]
    together = Rejects()
    together.add(where, np.array([1, 5, 9]), np.array([100, 500, 900]), "null")
    one_by_one = rejects_of([(where, row, "null") for row in (9, 1, 5)])
    assert together.to_parquet() == one_by_one.to_parquet()


def test_a_reject_in_words_says_where_it_is() -> None:
    rejects = rejects_of([(SLICES[1], 1_000, "null"), (SLICES[2], 50, "damaged"), (SLICES[2], 60, "null")])
    assert list(rejects.describe(9)) == [
        "a.parquet: row group 1, row 1,000: null",
        "b.tfrecord: record 50 at byte 5,000: damaged",
        "b.tfrecord: record 60 at byte 6,000: null",
    ]
    assert list(rejects.describe(1, lambda reason: reason == "damaged")) == [
        "b.tfrecord: record 50 at byte 5,000: damaged"
    ]


def test_no_rejects_are_an_empty_file_with_the_schema() -> None:
    assert table(Rejects()) == []
    assert list(Rejects().describe(3)) == []


def test_a_billion_rows_that_a_file_claims_to_have_are_one_entry() -> None:
    where = SLICES[0]
    rejects = Rejects()
    rejects.add(where, np.array([3]), None, "null")
    rejects.add_range(where, 10, 10**9, "damaged")
    rejects.add_range(where, 10 + 10**9, 5, "damaged")
    rejects.add_range(where, 20 + 10**9, 5, "damaged")
    found = [(row["row"], row["rows"], row["reason"]) for row in table(rejects)]
    assert found == [(3, 1, "null"), (10, 10**9 + 5, "damaged"), (20 + 10**9, 5, "damaged")]
    assert rejects.counts() == {"damaged": 10**9 + 10, "null": 1}
    assert [*rejects.describe(2)][1].endswith("row 10 and the 1,000,000,004 rows behind it: damaged")


def test_whole_batches_of_one_reason_are_one_entry() -> None:
    rejects = Rejects()
    for first in range(0, 10_240, 1_024):
        rejects.add(SLICES[0], np.arange(first, first + 1_024), None, "null")
    assert [(row["row"], row["rows"]) for row in table(rejects)] == [(0, 10_240)]


@pytest.mark.parametrize("cuts", [[], [0, 1], [10], [64, 128, 129, 200], list(range(0, 300, 7))])
def test_files_are_joined_to_the_file_of_a_table_written_whole(
    monkeypatch: pytest.MonkeyPatch, cuts: list[int]
) -> None:
    """So that memory does not follow the number of rejects."""
    monkeypatch.setattr(lineage, "_ROW_GROUP", 64)
    whole = rejects_of([(SLICES[row % 3], row, ["null", "empty"][row % 7 == 0]) for row in range(300)])
    table = pq.read_table(pa.BufferReader(whole.to_parquet())).cast(REJECTS_SCHEMA)
    bounds = [0, *cuts, 300]
    parts = [encode_table(table.slice(begin, end - begin)) for begin, end in pairwise(bounds)]
    assert join_rejects(iter(parts)) == whole.to_parquet() == encode_table(table)


def test_no_files_are_joined_to_an_empty_file() -> None:
    assert join_rejects([]) == Rejects().to_parquet()
