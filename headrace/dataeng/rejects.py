"""Rows that are not documents, by column: a filter may reject most of a corpus, so there is no Python object a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.dataeng.lineage import REJECTS_SCHEMA, TableWriter, as_rejects, encode_table, place
from headrace.dataeng.sources.base import BATCH_ROWS

ORIGINALS: Final = pa.schema(
    [REJECTS_SCHEMA.field(name) for name in ("original_source", "original_row_group", "original_row")]
)
_NO_OFFSET: Final = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What the rows of one slice have in common. `part` is the position of the slice in its unit."""

    part: int
    source: str
    row_group: int | None


@dataclass(frozen=True, slots=True)
class _Some:
    place: Place
    rows: NDArray[np.int64]
    byte_offsets: NDArray[np.int64] | None
    reason: str
    originals: Any
    each: int = 1  # rows that each of `rows` stands for: more for a range, which has one

    @property
    def end(self) -> int:
        return int(self.rows[-1]) + self.each


class Rejects:
    """The rejects of one unit, added in any order and given back in that of slices and rows."""

    def __init__(self) -> None:
        self._held: list[_Some] = []

    def add(
        self,
        where: Place,
        rows: NDArray[np.int64],
        byte_offsets: NDArray[np.int64] | None,
        reason: str,
        originals: Any = None,
    ) -> None:
        """rows, byte_offsets: int64 [rejects]. A reason of its own for each is a call of its own.

        originals: of duplicates, a pyarrow Table [rejects] with the columns that REJECTS_SCHEMA has for them.
        """
        if len(rows) >= BATCH_ROWS and byte_offsets is None and originals is None:
            first, count = int(rows[0]), len(rows)
            if int(rows[-1]) - first + 1 == count:
                self.add_range(where, first, count, reason)
                return
        if len(rows):
            self._held.append(_Some(where, rows, byte_offsets, reason, originals))

    def add_range(
        self, where: Place, first: int, count: int, reason: str, byte_offset: int | None = None
    ) -> None:
        """`count` rows from `first` on, as one entry: how many rows a file claims to have may be a billion.

        A range that goes on behind the one added before it makes that one longer.
        """
        if not count:
            return
        offsets = None if byte_offset is None else np.array([byte_offset])
        last = self._held[-1] if self._held else None
        alike = last is not None and last.each > 1 and offsets is None and last.byte_offsets is None
        if last is not None and alike and (last.place, last.reason, last.end) == (where, reason, first):
            self._held[-1] = replace(last, each=last.each + count)
            return
        self._held.append(_Some(where, np.array([first]), offsets, reason, None, count))

    def counts(self) -> dict[str, int]:
        """How many rows by reason, sorted by reason."""
        found = Counter[str]()
        for some in self._held:
            found[some.reason] += len(some.rows) * some.each
        return dict(sorted(found.items()))

    def describe(self, most: int, wanted: Callable[[str], bool] = lambda _reason: True) -> Iterator[str]:
        """The first `most` of them whose reason is `wanted`, in words."""
        columns = self._columns()
        of_interest = np.array([wanted(some.reason) for some in self._held], bool)
        for number in np.flatnonzero(of_interest[columns["some"]])[:most].tolist():
            some = self._held[int(columns["some"][number])]
            offset = int(columns["byte_offset"][number])
            row = int(columns["row"][number])
            where = place(some.place.row_group, row, None if offset == _NO_OFFSET else offset)
            more = f" and the {some.each - 1:,} rows behind it" if some.each > 1 else ""
            yield f"{some.place.source}: {where}{more}: {some.reason}"

    def to_parquet(self) -> bytes:
        """The file with REJECTS_SCHEMA."""
        columns = self._columns()
        some, no_offset = columns["some"], columns["byte_offset"] == _NO_OFFSET
        table = {
            "source": _pick([each.place.source for each in self._held], pa.string(), some),
            "row_group": _pick([each.place.row_group for each in self._held], pa.int32(), some),
            "row": pa.array(columns["row"]),
            "rows": pa.array([each.each for each in self._held], pa.int64()).take(pa.array(some)),
            "byte_offset": pa.array(columns["byte_offset"], mask=no_offset),
            "reason": _pick([each.reason for each in self._held], pa.string(), some),
        }
        if any(each.originals is not None for each in self._held):
            found = [
                _nulls(len(each.rows)) if each.originals is None else each.originals for each in self._held
            ]
            originals = pa.concat_tables(found).take(pa.array(columns["position"]))
            table |= {name: originals[name] for name in ORIGINALS.names}
        return encode_table(as_rejects(pa.table(table)))

    def _columns(self) -> dict[str, NDArray[np.int64]]:
        """In order; `some` is the number of the call that added the row, `position` that of the row among all as added."""
        held = self._held
        sizes = [len(some.rows) for some in held]
        columns = {
            "row": _joined([some.rows for some in held]),
            "byte_offset": _joined(
                [
                    np.full(len(some.rows), _NO_OFFSET) if some.byte_offsets is None else some.byte_offsets
                    for some in held
                ]
            ),
            "some": np.repeat(np.arange(len(held)), sizes),
        }
        part = np.repeat(np.array([some.place.part for some in held], np.int64), sizes)
        order = np.lexsort((columns["row"], part))
        return {**{name: column[order] for name, column in columns.items()}, "position": order}


def _nulls(count: int) -> Any:
    return pa.table([pa.nulls(count, field.type) for field in ORIGINALS], ORIGINALS)


def join_rejects(files: Iterable[bytes]) -> bytes:
    """One file with the rows of many, in order. In memory is what it takes on disk, and one row group of theirs."""
    writer = TableWriter(REJECTS_SCHEMA)
    for data in files:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
        for number in range(file.num_row_groups):
            for batch in as_rejects(file.read_row_group(number, use_threads=False)).to_batches():
                writer.add(batch)
    return writer.finish()


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _pick(values: list[Any], kind: Any, numbers: NDArray[np.int64]) -> Any:
    return pa.array(values, kind).take(pa.array(numbers))
