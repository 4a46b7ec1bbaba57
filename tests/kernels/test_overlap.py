from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.overlap import (
    Known,
    overlap_reference,
    overlaps,
    run_hash_reference,
    run_hashes,
    sieve,
)
from headrace.kernels.words import word_hash_reference

# Two words, so that runs meet by chance; and some that are in no text.
WORDS = st.lists(st.sampled_from("ab"), max_size=14)
RUNS = st.dictionaries(
    st.lists(st.sampled_from("abx"), min_size=2, max_size=5).map(tuple), st.integers(0, 255), max_size=6
)


def flat(texts: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    words = np.array([word_hash_reference(word) for text in texts for word in text], np.uint64)
    return words, np.cumsum([0, *map(len, texts)])


def known_of(runs: dict[tuple[str, ...], int], size: int = 5, shortest: int = 2) -> Known:
    hashed = sorted((run_hash_reference(run), owner) for run, owner in runs.items())
    short = [run for run in runs if len(run) < size]
    return Known(
        size=size,
        shortest=shortest,
        runs=np.array([hash_ for hash_, _ in hashed], np.uint64),
        owners=np.array([owner for _, owner in hashed], np.uint8),
        short_sizes=np.array(sorted({len(run) for run in short}, reverse=True), np.int64),
        short_starts=np.unique(np.array([run_hash_reference(run[:shortest]) for run in short], np.uint64)),
    )


@settings(deadline=None)  # the first call compiles
@given(texts=st.lists(WORDS, max_size=5), runs=RUNS)
def test_words_in_known_runs_are_those_that_the_reference_finds(
    texts: list[list[str]], runs: dict[tuple[str, ...], int]
) -> None:
    known = known_of(runs)
    covered, owners = overlaps(*flat(texts), known, sieve(known.runs), sieve(known.short_starts))
    expected = [overlap_reference(text, runs) for text in texts]
    assert list(zip(covered.tolist(), owners.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(texts=st.lists(WORDS, max_size=5), size=st.integers(1, 6))
def test_runs_are_all_of_one_size_and_none_reaches_into_another_text(
    texts: list[list[str]], size: int
) -> None:
    hashes, of_text = run_hashes(*flat(texts), size)
    expected = [
        (run_hash_reference(text[begin : begin + size]), number)
        for number, text in enumerate(texts)
        for begin in range(len(text) - size + 1)
    ]
    assert list(zip(hashes.tolist(), of_text.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(known=st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_a_sieve_lets_through_everything_that_is_known(known: list[int]) -> None:
    bits = sieve(np.array(known, np.uint64))
    assert all(bits[value % (8 * len(bits)) >> 3] >> (value & 7) & 1 for value in known)
    assert int(np.unpackbits(bits).sum()) <= len(known)
