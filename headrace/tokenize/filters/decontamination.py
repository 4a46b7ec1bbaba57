"""Documents that hold a piece of an evaluation: a run of n words that is in one of its texts (Brown et al. 2020, appendix C).

evaluation files ──> texts ──> words ──> runs of n, hashed ──> Evaluations, sent to every worker
                                                                    │
text of a document ──> words ──> runs of n, hashed ── in there? ────┘
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.lineage import place, string_buffers
from headrace.dataeng.sources.base import BLANK, EMPTY, NO_TEXT, NULL, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.storage import redact
from headrace.errors import InputError
from headrace.kernels.overlap import Known, overlaps, run_hashes, sieve
from headrace.kernels.words import word_hashes
from headrace.tokenize.filters.config import Decontamination
from headrace.tokenize.filters.reasons import CONTAMINATED

# Runs that are kept in mind: 9 bytes each, and 2 to 4 for the sieve, in every worker.
MAX_RUNS: Final = 1 << 24
# Texts of fewer words are not looked for: they are in too many documents by chance.
SHORTEST: Final = 8
_NOTHING: Final = frozenset({NULL, EMPTY, BLANK, NO_TEXT})  # an evaluation may lack an answer here and there


@dataclass(frozen=True, slots=True)
class Evaluations:
    """What is looked for. names: the last part of each place, which is what an owner in `known` is. described: of the manifest."""

    known: Known
    names: tuple[str, ...]
    share: float
    described: dict[str, Any]


def read_evaluations(config: Decontamination) -> Evaluations:
    """Reads the texts of all evaluation files.

    Raises:
        InputError: a file that cannot be read whole, without the column, or without a text that is long enough; too many.
    """
    runs = _Runs(config.ngram)
    told: list[dict[str, Any]] = []
    names = [_name(where) for where in config.places]
    for owner, where in enumerate(config.places):
        digest, texts, too_short, found = hashlib.sha256(), 0, 0, 0
        for column in _columns(where, config.columns):
            offsets, data = string_buffers(column)
            for begin, end in pairwise(offsets.tolist()):
                digest.update((end - begin).to_bytes(8, "little"))
                digest.update(data[begin:end])
            words, word_offsets = word_hashes(np.frombuffer(data, np.uint8), offsets)
            texts += len(column)
            too_short += int((np.diff(word_offsets) < runs.shortest).sum())
            found += runs.add(words, word_offsets, owner)
        if not found:
            raise InputError(
                f"--decontaminate {redact(where)}: none of its {texts:,} texts has {runs.shortest} words, so nothing would be "
                "looked for; is it the right column (--decontaminate-column)?"
            )
        told.append(
            {"name": names[owner], "texts": texts, "too_short": too_short, "sha256": digest.hexdigest()}
        )
    known = runs.known()
    described = {
        "ngram": config.ngram,
        "share": config.share,
        "columns": list(config.columns),
        "evaluations": told,
        "runs": len(known.runs),
    }
    return Evaluations(known, tuple(names), config.share, described)


class _Runs:
    """Runs of words as they are found; of those that are found again, the first owner's."""

    def __init__(self, size: int) -> None:
        self._size, self.shortest = size, min(SHORTEST, size)
        self._runs, self._owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
        self._num_held = 0
        self._starts = [np.empty(0, np.uint64)]
        self._short_sizes = set[int]()

    def add(self, words: NDArray[np.uint64], offsets_T: NDArray[np.int64], owner: int) -> int:
        """How many runs there are in T texts. Raises InputError for too many different ones in all."""
        lengths_T = np.diff(offsets_T)
        short_T = (lengths_T >= self.shortest) & (lengths_T < self._size)
        found = [run_hashes(words, offsets_T, self._size)[0]]
        for length in np.unique(lengths_T[short_T]).tolist():
            hashes, texts = run_hashes(words, offsets_T, length)
            found.append(hashes[lengths_T[texts] == length])  # all of a text, not a part of a longer one
            self._short_sizes.add(length)
        if short_T.any():
            hashes, texts = run_hashes(words, offsets_T, self.shortest)
            is_first = np.diff(texts, prepend=-1) > 0
            self._starts.append(hashes[is_first & short_T[texts]])
        count = sum(map(len, found))
        self._runs += found
        self._owners.append(np.full(count, owner, np.uint8))
        self._num_held += count
        if self._num_held > MAX_RUNS + MAX_RUNS // 2:
            self._merge()
        return count

    def _merge(self) -> None:
        runs, first = np.unique(np.concatenate(self._runs), return_index=True)
        if len(runs) > MAX_RUNS:
            raise InputError(
                f"--decontaminate: {len(runs):,} different runs of {self._size} words or fewer; {MAX_RUNS:,} are the most that "
                "are held in memory. Leave out what is no evaluation"
            )
        self._runs, self._owners = [runs], [np.concatenate(self._owners)[first]]
        self._num_held = len(runs)

    def known(self) -> Known:
        self._merge()
        return Known(
            size=self._size,
            shortest=self.shortest,
            runs=self._runs[0],
            owners=self._owners[0],
            short_sizes=np.array(sorted(self._short_sizes, reverse=True), np.int64),
            short_starts=np.unique(np.concatenate(self._starts)),
        )


def _name(where: str) -> str:
    """For a reason: the last part of the place, without white space."""
    return "_".join(redact(where).rstrip("/").rpartition("/")[2].split())


def _columns(where: str, columns: tuple[str, ...]) -> Iterator[Any]:
    """The texts of a place as Arrow arrays without nulls. A .txt file is a text, of other files every row is one."""
    whole = where.lower().endswith(".txt")
    for name in columns or (None,):
        try:
            found = discover([where], text_column=None if whole else name, whole_files=whole)
        except InputError as error:
            said = str(error).replace("--text-column", "--decontaminate-column")
            raise InputError(f"--decontaminate {redact(where)}: {said}") from None
        for source in found.sources:
            for part in source.slices:
                for batch in read_slice(source, part, found.columns):
                    for position, reason in batch.rejects.items():
                        if reason not in _NOTHING:
                            row = place(part.row_group, batch.first_row + position, None)
                            raise InputError(
                                f"--decontaminate {source.name}: {row}: {reason}. An evaluation of which a part cannot be "
                                "read would stay in the corpus unseen; mend the file, or give another column "
                                "(--decontaminate-column)"
                            )
                    if len(some := batch.texts.drop_null()):
                        yield some


class DecontaminationFilter:
    """Rejects documents of whose words more than a share stand in runs of an evaluation."""

    def __init__(self, evaluations: Evaluations) -> None:
        known = evaluations.known
        self._known, self._share = known, evaluations.share
        self._run_sieve, self._short_sieve = sieve(known.runs), sieve(known.short_starts)
        self.reasons: Final = tuple(dict.fromkeys(f"{CONTAMINATED}:{name}" for name in evaluations.names))
        self._reason_of = np.array(
            [1 + self.reasons.index(f"{CONTAMINATED}:{name}") for name in evaluations.names], np.uint8
        )

    def judge(self, texts: Any) -> NDArray[np.uint8]:
        """0 for each of `texts` that is kept, else one more than the position of its reason: whose its first run is."""
        offsets, data = string_buffers(texts)
        words, word_offsets = word_hashes(np.frombuffer(data, np.uint8), offsets)
        covered, owners = overlaps(words, word_offsets, self._known, self._run_sieve, self._short_sieve)
        too_much = (covered > 0) & (covered > self._share * np.diff(word_offsets))
        return np.where(too_much, self._reason_of[owners], 0).astype(np.uint8)
