"""The keys of a whole corpus: its documents are numbered in order, and looked up by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.storage import Store
from headrace.tokenize.dedup.journal import ScanRecord
from headrace.tokenize.dedup.keys import read_columns
from headrace.tokenize.dedup.parent import PARENT_UNIT, Parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """Documents whose keys are read together: how, and the number of the first."""

    read: Callable[[list[str]], dict[str, NDArray[Any]]]
    begin: int
    documents: int

    @property
    def numbers(self) -> NDArray[np.uint64]:
        return np.arange(self.begin, self.begin + self.documents, dtype=np.uint64)


class Corpus:
    """Scans in the order of their units, behind the documents of `parent`, which are a unit of their own and have no
    bands. Documents are numbered from 0.
    """

    def __init__(self, store: Store, scans: Sequence[ScanRecord], parent: Parent | None = None) -> None:
        self.store = store
        self.units = [scan.unit for scan in scans]
        self.parts: list[Part] = []
        begins = [0]
        if parent is not None:
            self.units.insert(0, PARENT_UNIT)
            for row in parent.dataset.shards.rows():
                self._add(partial(parent.read, row), row.documents)
            begins.append(self._end)
        self.num_there = begins[-1]  # documents of the parent
        for scan in scans:
            for file in scan.keys:
                self._add(partial(read_columns, store, file), file.documents)
            begins.append(self._end)
        self.unit_begins = np.array(begins, np.uint64)  # [units + 1]
        self._part_begins = np.array([part.begin for part in self.parts], np.uint64)

    @property
    def _end(self) -> int:
        return self.parts[-1].begin + self.parts[-1].documents if self.parts else 0

    def _add(self, read: Callable[[list[str]], dict[str, NDArray[Any]]], documents: int) -> None:
        self.parts.append(Part(read=read, begin=self._end, documents=documents))

    @property
    def num_documents(self) -> int:
        return int(self.unit_begins[-1])

    def read(
        self, names: Sequence[str], *, scanned_only: bool = False
    ) -> Iterator[tuple[Part, dict[str, NDArray[Any]]]]:
        """Some columns of all documents, or of those that are not the parent's, file by file, in order."""
        for part in self.parts:
            if part.begin >= self.num_there or not scanned_only:
                yield part, part.read(list(names))

    def look_up(self, documents: NDArray[np.uint64], names: Sequence[str]) -> NDArray[np.uint64]:
        """Some columns of some documents, in any order, as uint64 [documents, names]. Each file is read at most once."""
        found = np.empty((len(documents), len(names)), np.uint64)
        order = np.argsort(documents, kind="stable")
        wanted = documents[order]
        bounds = np.append(np.searchsorted(wanted, self._part_begins), len(wanted))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            part = self.parts[number]
            columns = part.read(list(names))
            rows = (wanted[bounds[number] : bounds[number + 1]] - np.uint64(part.begin)).astype(np.int64)
            places = order[bounds[number] : bounds[number + 1]]
            for column, name in enumerate(names):
                found[places, column] = columns[name][rows].astype(np.uint64)
        return found

    def ranges(self, count: int) -> NDArray[np.uint64]:
        """Cuts the documents in at most `count` ranges of whole units: the first document of each."""
        even = np.arange(count, dtype=np.uint64) * np.uint64(self.num_documents) // np.uint64(count)
        at = np.searchsorted(self.unit_begins[:-1], even, side="right") - 1
        return np.unique(self.unit_begins[at])
