"""The keys of a whole corpus: its documents are numbered in order, and looked up by their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.storage import Store
from headrace.tokenize.dedup.journal import ScanRecord
from headrace.tokenize.dedup.keys import KeysFile, read_columns


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A file of keys and the number of its first document."""

    file: KeysFile
    begin: int

    @property
    def end(self) -> int:
        return self.begin + self.file.documents

    @property
    def numbers(self) -> NDArray[np.uint64]:
        return np.arange(self.begin, self.end, dtype=np.uint64)


class Corpus:
    """Scans in the order of their units. Documents are numbered from 0."""

    def __init__(self, store: Store, scans: Sequence[ScanRecord]) -> None:
        self.store = store
        self.units = [scan.unit for scan in scans]
        self.parts: list[Part] = []
        begins = [0]
        for scan in scans:
            begin = begins[-1]
            for file in scan.keys:
                self.parts.append(Part(file=file, begin=begin))
                begin += file.documents
            begins.append(begin)
        self.unit_begins = np.array(begins, np.uint64)  # [units + 1]
        self._part_begins = np.array([part.begin for part in self.parts], np.uint64)

    @property
    def num_documents(self) -> int:
        return int(self.unit_begins[-1])

    def read(self, names: Sequence[str]) -> Iterator[tuple[Part, dict[str, NDArray[Any]]]]:
        """Some columns of all documents, file by file, in order."""
        for part in self.parts:
            yield part, read_columns(self.store, part.file, list(names))

    def look_up(self, documents: NDArray[np.uint64], names: Sequence[str]) -> NDArray[np.uint64]:
        """Some columns of some documents, in any order, as uint64 [documents, names]. Each file is read at most once."""
        found = np.empty((len(documents), len(names)), np.uint64)
        order = np.argsort(documents, kind="stable")
        wanted = documents[order]
        bounds = np.append(np.searchsorted(wanted, self._part_begins), len(wanted))
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            part = self.parts[number]
            columns = read_columns(self.store, part.file, list(names))
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
