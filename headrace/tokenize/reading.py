"""The rows of a unit as groups of documents: read, filtered, and each row that is not a document noted with its reason.

Every pass over a unit reads it through this, so that all passes see the same documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.lineage import place, string_buffers
from headrace.dataeng.rejects import Place, Rejects
from headrace.dataeng.sources.base import (
    DAMAGED,
    TOO_LARGE,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    read_slice,
)
from headrace.tokenize.damage import SliceDamage
from headrace.tokenize.filters.chain import Chain, take
from headrace.tokenize.units import Unit

_GROUP_BYTES: Final = 1 << 20  # of text at a time: bounds what the tokenizer holds


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Documents that are worked on together: of one slice, in order, as Arrow columns without nulls.

    rows: int64 [documents]. texts: LargeStringArray, as they are to be tokenized. ids: StringArray or None.
    byte_offsets: int64 [documents] or None.
    """

    number: int  # of the slice in the unit
    part: Slice
    rows: NDArray[np.int64]
    texts: Any
    ids: Any
    byte_offsets: NDArray[np.int64] | None
    first: bool  # holds the first document of its file in this unit
    text_hash: Any = None  # `text_hashes(texts)`, where somebody needed them before


@dataclass(slots=True)
class Tally:
    """Counts of one file in the making."""

    rows: int = 0
    documents: int = 0
    rejected: int = 0
    tokens: int = 0
    text_bytes: int = 0


class Reading:
    """One pass over the rows of a unit. `tallies` (by file) and `rejects` are complete once `groups` is exhausted.

    sources: the files of the unit by position. damaged: slices of which only so many first rows are to be used.
    max_document_bytes: of text, before and after it is filtered.
    """

    def __init__(
        self,
        unit: Unit,
        sources: Mapping[int, SourceFile],
        columns: Columns,
        chain: Chain,
        *,
        max_document_bytes: int,
        damaged: Mapping[Slice, int],
    ) -> None:
        self._unit, self._sources, self._columns, self._chain = unit, sources, columns, chain
        self._max_document_bytes, self._damaged = max_document_bytes, damaged
        self.rejects = Rejects()
        self.tallies = {file: Tally() for file in unit.files}

    def groups(self) -> Iterator[Group]:
        """All documents, in order, in groups of about 1 MiB of text.

        Raises:
            SliceDamage: a source is damaged where `damaged` does not say so.
            UsageError: the hook cannot be used.
        """
        begun: set[int] = set()
        for number, part in enumerate(self._unit.slices):
            for batch in self._batches(number, part):
                for group in self._documents(number, part, batch):
                    yield replace(group, first=part.file not in begun)
                    begun.add(part.file)

    def reject(
        self,
        number: int,
        part: Slice,
        rows: NDArray[np.int64],
        byte_offsets: NDArray[np.int64] | None,
        reason: str,
        originals: Any = None,
    ) -> None:
        """Notes rows of slice `number` of the unit, `part`, that are not documents, all for the same reason.

        originals: as `Rejects.add` takes them.
        """
        self.rejects.add(self._place(number, part), rows, byte_offsets, reason, originals)
        self.tallies[part.file].rejected += len(rows)

    def _place(self, number: int, part: Slice) -> Place:
        return Place(part=number, source=self._sources[part.file].name, row_group=part.row_group)

    def total(self, count: str) -> int:
        """The sum of one of the counts over the files."""
        return sum(getattr(tally, count) for tally in self.tallies.values())

    def _batches(self, number: int, part: Slice) -> Iterator[Batch]:
        """The batches of a slice; of a damaged one the intact rows, and a reject for each of the others, or where their
        number is unknown one for all.
        """
        intact_rows = self._damaged.get(part)
        left = part.num_rows if intact_rows is None else intact_rows
        if left != 0:
            batches = read_slice(self._sources[part.file], part, self._columns)
            while True:
                try:
                    batch = next(batches, None)
                except SourceDamage as error:
                    raise SliceDamage(str(error), part, error.intact_rows) from None
                if batch is None:
                    break
                if intact_rows is None:
                    yield batch
                    continue
                left = intact_rows - (batch.first_row - part.first_row)
                yield batch.first(left)
                if left <= len(batch.texts):
                    break
        if intact_rows is not None:
            begin = part.first_row + intact_rows
            end = begin + 1 if part.num_rows is None else part.first_row + part.num_rows
            offset = None if intact_rows else part.byte_offset
            self.rejects.add_range(self._place(number, part), begin, end - begin, DAMAGED, offset)
            self.tallies[part.file].rejected += end - begin
            self.tallies[part.file].rows += end - begin

    def _documents(self, number: int, part: Slice, batch: Batch) -> Iterator[Group]:
        """Notes what is not a document, and yields the others in groups of about _GROUP_BYTES."""
        self.tallies[part.file].rows += len(batch.texts)
        by_reason: dict[str, list[int]] = {}
        for position, reason in batch.rejects.items():
            by_reason.setdefault(reason, []).append(position)
        for reason, found in by_reason.items():
            self._reject_of(number, part, batch, np.array(found), reason)
        wanted = np.ones(len(batch.texts), bool)
        wanted[list(batch.rejects)] = False
        texts, kept = self._small_enough(number, part, batch, batch.texts, np.arange(len(wanted)), wanted)
        if self._chain and len(kept):
            filtered = self._chain.apply(texts, partial(self._describe, part, batch, kept))
            for reason, of_kept in filtered.rejected.items():
                self._reject_of(number, part, batch, kept[of_kept], reason)
            kept, texts = kept[filtered.kept], filtered.texts
            if self._chain.changes_texts:
                all_of_them = np.ones(len(kept), bool)
                texts, kept = self._small_enough(number, part, batch, texts, kept, all_of_them)
        sizes = np.diff(string_buffers(texts)[0])
        ends = np.cumsum(sizes)
        begin = 0
        while begin < len(kept):
            before = int(ends[begin - 1]) if begin else 0
            # A longer text is a group of its own.
            end = max(begin + 1, int(np.searchsorted(ends, before + _GROUP_BYTES, side="right")))
            positions = kept[begin:end]
            yield Group(
                number=number,
                part=part,
                rows=batch.first_row + positions,
                texts=texts.slice(begin, end - begin),
                ids=None if batch.ids is None else take(batch.ids, positions),
                byte_offsets=None if batch.byte_offsets is None else batch.byte_offsets[positions],
                first=False,
            )
            begin = end

    def _small_enough(
        self,
        number: int,
        part: Slice,
        batch: Batch,
        texts: Any,
        positions: NDArray[np.int64],
        wanted: NDArray[np.bool_],
    ) -> tuple[Any, NDArray[np.int64]]:
        """Of `texts`, those of `wanted` that are not too large; positions: of each in the batch."""
        sizes = np.diff(string_buffers(texts)[0])
        too_large = wanted & (sizes > self._max_document_bytes)
        self._reject_of(number, part, batch, positions[too_large], TOO_LARGE)
        kept = np.flatnonzero(wanted & ~too_large)
        return take(texts, kept), positions[kept]

    def _describe(self, part: Slice, batch: Batch, positions: NDArray[np.int64], number: int) -> str:
        position = int(positions[number])
        offset = None if batch.byte_offsets is None else int(batch.byte_offsets[position])
        where = place(part.row_group, batch.first_row + position, offset)
        return f"{self._sources[part.file].name}: {where}"

    def _reject_of(
        self, number: int, part: Slice, batch: Batch, positions: NDArray[np.int64], reason: str
    ) -> None:
        offsets = None if batch.byte_offsets is None else batch.byte_offsets[positions]
        self.reject(number, part, batch.first_row + positions, offsets, reason)
