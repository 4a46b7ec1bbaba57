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
MAX_RUNS: Final = 1 << 25
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
    size = config.ngram
    shortest = min(SHORTEST, size)
    runs: list[NDArray[np.uint64]] = []
    owners: list[NDArray[np.uint8]] = []
    starts: list[NDArray[np.uint64]] = []
    short_sizes = set[int]()
    told: list[dict[str, Any]] = []
    names = [_name(where) for where in config.places]
    for owner, where in enumerate(config.places):
        digest, texts, too_short, found = hashlib.sha256(), 0, 0, 0
        for column in _columns(where, config.columns):
            offsets, data = string_buffers(column)
            texts += len(column)
            for begin, end in pairwise(offsets.tolist()):
                digest.update((end - begin).to_bytes(8, "little"))
                digest.update(data[begin:end])
            words, word_offsets = word_hashes(np.frombuffer(data, np.uint8), offsets)
            lengths = np.diff(word_offsets)
            too_short += int((lengths < shortest).sum())
            sizes = {size, *np.unique(lengths[(lengths >= shortest) & (lengths < size)]).tolist()}
            for length in sizes:
                hashes, of_text = run_hashes(words, word_offsets, length)
                if length < size:  # all of the text, not a part of a longer one
                    hashes = hashes[lengths[of_text] == length]
                    short_sizes.add(length)
                    begins, of_start = run_hashes(words, word_offsets, shortest)
                    firsts = np.flatnonzero(np.diff(of_start, prepend=-1))  # of each text the first
                    starts.append(begins[firsts][lengths[of_start[firsts]] == length])
                runs.append(hashes)
                owners.append(np.full(len(hashes), owner, np.uint8))
                found += len(hashes)
        if not found:
            raise InputError(
                f"--decontaminate {redact(where)}: none of its {texts:,} texts has {shortest} words, so nothing would be "
                "looked for; is it the right column (--decontaminate-column)?"
            )
        told.append(
            {"name": names[owner], "texts": texts, "too_short": too_short, "sha256": digest.hexdigest()}
        )
    every_run, first = np.unique(np.concatenate(runs), return_index=True)
    if len(every_run) > MAX_RUNS:
        raise InputError(
            f"--decontaminate: {len(every_run):,} different runs of {size} words; {MAX_RUNS:,} are the most that are held in "
            "memory. Leave out what is no evaluation, or decontaminate in several jobs"
        )
    known = Known(
        size=size,
        shortest=shortest,
        runs=every_run,
        owners=np.concatenate(owners)[first],
        short_sizes=np.array(sorted(short_sizes, reverse=True), np.int64),
        short_starts=np.unique(np.concatenate([np.empty(0, np.uint64), *starts])),
    )
    described = {
        "ngram": size,
        "share": config.share,
        "columns": list(config.columns),
        "evaluations": told,
        "runs": len(every_run),
    }
    return Evaluations(known, tuple(names), config.share, described)


def _name(where: str) -> str:
    """For a reason: the last part of the place, without white space."""
    return "_".join(redact(where).rstrip("/").rpartition("/")[2].split())


def _columns(where: str, columns: tuple[str, ...]) -> Iterator[Any]:
    """The texts of a place as Arrow arrays without nulls. A .txt file is a text, of other files every row is one."""
    whole = where.lower().endswith(".txt")
    for name in columns or (None,):
        found = discover([where], text_column=None if whole else name, whole_files=whole)
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
