"""From the keys of all documents to the drops of each unit, in bounded memory.

    hashes ──> partitions by hash ──> repeats ──┐ (document, first)
    bands  ──> partitions by band ──> repeats ──┤
                                                ├──> by first: where it is, its bands ──> by document: estimate ──> drops
Legend: a pair is a document and the first document with the same key; both are numbers in the order of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.tokenize.dedup.config import DedupConfig
from headrace.tokenize.dedup.corpus import Corpus
from headrace.tokenize.dedup.drops import write_drops
from headrace.tokenize.dedup.firsts import partition_of, repeats
from headrace.tokenize.dedup.journal import Decision, ScanJournal, ScanRecord, UnitDrops, digest_of
from headrace.tokenize.dedup.keys import HASH, band_columns, is_kept
from headrace.tokenize.dedup.parent import PARENT_UNIT, Parent
from headrace.tokenize.dedup.scratch import MAX_PARTITIONS, Partitions, Scratch
from headrace.tokenize.dedup.signatures import NO_WORDS, num_equal

BUDGET: Final = 64 << 20
_PLACE: Final = ("part", "row")


# Of a slice, by the number of its unit and its position there: the source and the row group, as lineage names them.
NameOf = Callable[[int, int], tuple[str, int | None]]


def decide(
    store: Store,
    scans: Sequence[ScanRecord],
    config: DedupConfig,
    name_of: NameOf,
    *,
    parent: Dataset | None = None,
    budget: int = BUDGET,
) -> Decision:
    """Decides and records it, unless that was done. scans: of all units, in order. parent: what is there before them.

    Raises:
        InputError: no room for scratch files.
        DamageError: a file of keys is not what was stored.
    """
    journal, digest = ScanJournal(store), digest_of(scans, parent)
    done = journal.decision(digest)
    if done is not None and all(is_kept(store, each.name, each.sha256) for each in done.drops.values()):
        return done
    there = None if parent is None else Parent(parent)

    def name(unit: int, part: int) -> tuple[str, int | None]:
        return name_of(unit, part) if there is None or unit != PARENT_UNIT else there.name_of(part)

    corpus = Corpus(store, scans, there)
    decision = Decision(
        scans=digest, drops=_Deciding(corpus, config, name, Scratch.beside(store, budget)).run()
    )
    journal.write_decision(decision)
    return decision


class DocumentSet:
    """Some of the documents: a bit each."""

    def __init__(self, num_documents: int) -> None:
        self._bits = np.zeros(num_documents // 8 + 1, np.uint8)

    def add(self, documents: NDArray[np.uint64]) -> None:
        np.bitwise_or.at(self._bits, (documents >> np.uint64(3)).astype(np.int64), _bit(documents))

    def has(self, documents: NDArray[np.uint64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (
            self._bits[(documents >> np.uint64(3)).astype(np.int64)] & _bit(documents) != 0
        )
        return found


class _Deciding:
    def __init__(self, corpus: Corpus, config: DedupConfig, name_of: NameOf, scratch: Scratch) -> None:
        self._corpus, self._config, self._name_of, self._scratch = corpus, config, name_of, scratch
        self._same = DocumentSet(corpus.num_documents)  # those with the text of an earlier one
        banding = config.banding
        self._bands = [] if banding is None else band_columns(banding.bands)
        # A range holds the pairs of its documents: at worst one by the hash or by each band.
        widest = 8 * (2 + len(_PLACE) + len(self._bands))
        self._ranges = corpus.ranges(scratch.partitions_for(corpus.num_documents * widest))

    def run(self) -> dict[int, UnitDrops]:
        if not self._corpus.num_documents:
            return {}
        count = len(self._ranges)
        with (
            Partitions(self._scratch, count, 2 + len(_PLACE)) as same,
            Partitions(self._scratch, count, 2 + len(_PLACE) + len(self._bands)) as like,
        ):
            self._describe(self._same_text(), [], same)
            if self._bands:
                self._describe(self._same_band(), self._bands, like)
            return {drops.unit: drops for number in range(count) for drops in self._drops(number, same, like)}

    def _same_text(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs with equal hashes. Each document that is not the first is in one."""
        count = self._scratch.partitions_for(self._corpus.num_documents * 24)
        with Partitions(self._scratch, count, 3) as partitions:
            for part, columns in self._corpus.read(HASH):
                records = np.stack([columns[HASH[0]], columns[HASH[1]], part.numbers], axis=1)
                partitions.add(partition_of(records[:, 0], count), records)
            for number in range(count):
                for pairs in repeats(partitions, number):
                    added = pairs[pairs[:, 0] >= np.uint64(self._corpus.num_there)]
                    self._same.add(added[:, 0])
                    yield added

    def _same_band(self) -> Iterator[NDArray[np.uint64]]:
        """Pairs with a band in common, of documents whose text is not that of an earlier one."""
        each = self._scratch.partitions_for(self._corpus.num_documents * 16)
        at_once = MAX_PARTITIONS // each  # bands whose partitions are open at a time
        for begin in range(0, len(self._bands), at_once):
            bands = self._bands[begin : begin + at_once]
            with Partitions(self._scratch, each * len(bands), 2) as partitions:
                for part, columns in self._corpus.read(bands, scanned_only=True):
                    new = ~self._same.has(part.numbers)
                    for number, name in enumerate(bands):
                        wanted = new & (columns[name] != NO_WORDS)
                        records = np.stack([columns[name], part.numbers], axis=1)[wanted]
                        partitions.add(partition_of(records[:, 0], each) + np.uint64(number * each), records)
                for number in range(len(partitions)):
                    yield from repeats(partitions, number)

    def _describe(
        self, pairs: Iterator[NDArray[np.uint64]], bands: Sequence[str], described: Partitions
    ) -> None:
        """Puts pairs, with the place of the first and its bands, into the partitions of their documents."""
        with Partitions(self._scratch, len(self._ranges), 2) as by_first:
            for some in pairs:
                by_first.add(self._range_of(some[:, 1]), some)
            for number in range(len(by_first)):
                for block in by_first.read(number):
                    found = _distinct(block)
                    columns = self._corpus.look_up(found[:, 1], [*_PLACE, *bands])
                    described.add(self._range_of(found[:, 0]), np.concatenate([found, columns], axis=1))

    def _drops(self, number: int, same: Partitions, like: Partitions) -> Iterator[UnitDrops]:
        """Of the units of one range."""
        decided = np.empty((0, 2 + len(_PLACE)), np.uint64)
        for block in same.read(number):
            decided = np.concatenate([decided, block])
        for block in like.read(number):
            decided = _earliest(np.concatenate([decided, self._similar(block)]))
        decided = decided[np.argsort(decided[:, 0])]
        begins = self._corpus.unit_begins
        bounds = np.searchsorted(decided[:, 0], begins)
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            documents, firsts, parts, rows = decided[bounds[index] : bounds[index + 1]].T
            of_units = np.array(self._corpus.units)[np.searchsorted(begins, firsts, side="right") - 1]
            places = self._corpus.look_up(documents, _PLACE)
            yield write_drops(
                self._corpus.store,
                self._corpus.units[index],
                {
                    "part": places[:, 0].astype(np.int32),
                    "row": places[:, 1].astype(np.int64),
                    "near": ~self._same.has(documents),
                    **self._originals(of_units, parts.astype(np.int64)),
                    "original_row": rows.astype(np.int64),
                },
            )

    def _originals(self, units: NDArray[np.int64], parts: NDArray[np.int64]) -> dict[str, Any]:
        slices, which = np.unique(np.stack([units, parts], axis=1), axis=0, return_inverse=True)
        names = [self._name_of(unit, part) for unit, part in slices.tolist()]
        numbers = pa.array(which.reshape(-1))
        return {
            "original_source": pa.array([name for name, _ in names], pa.string()).take(numbers),
            "original_row_group": pa.array([group for _, group in names], pa.int32()).take(numbers),
        }

    def _similar(self, block: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Of pairs with the bands of the first those that are similar enough, without the bands."""
        banding = self._config.banding
        assert banding is not None  # there are bands
        block = _distinct(block)
        own = self._corpus.look_up(block[:, 0], self._bands)
        equal = num_equal(own, block[:, 2 + len(_PLACE) :], banding)
        return block[equal >= banding.least_equal(self._config.threshold), : 2 + len(_PLACE)]

    def _range_of(self, documents: NDArray[np.uint64]) -> NDArray[np.intp]:
        return np.searchsorted(self._ranges, documents, side="right") - 1


def _bit(documents: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.uint8(1) << (documents & np.uint64(7)).astype(np.uint8)


def _distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each pair once: several bands find the same one."""
    return _first_of_each(pairs, 2)


def _earliest(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of each document the pair with the earliest first."""
    return _first_of_each(pairs, 1)


def _first_of_each(pairs: NDArray[np.uint64], columns: int) -> NDArray[np.uint64]:
    ordered: NDArray[np.uint64] = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    new = np.ones(len(ordered), bool)
    new[1:] = np.any(np.diff(ordered[:, :columns], axis=0) != 0, axis=1)
    return ordered[new]
