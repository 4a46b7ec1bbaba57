"""Which words of a text stand in a run of words that is also in some other, known texts.

A run of n words is told by the hash of its words (`words.py` says what a word is). What is known is a sorted array of such
hashes, with a number for each that says whose it is; in front of it stands a sieve, a bit map that lets few others through,
so that a word of an unrelated text costs one look at memory.

Legend: T texts; words lie one text after another; offsets_T[t] to offsets_T[t + 1] are text t's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit
from headrace.kernels.mix import MASK, mix64, mix64_reference
from headrace.kernels.words import word_hash_reference

_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_SIEVE_BITS: Final = 16  # for each known run: one in sixteen others gets through
_SMALLEST_SIEVE: Final = 16  # log2 of bits


@dataclass(frozen=True, slots=True)
class Known:
    """Runs of known texts.

    runs: uint64 [R], sorted, distinct. owners: uint8 [R]. size: words in a run. Of texts of fewer words, but of `shortest` or
    more, all of it is a run: short_sizes: int64, how many words those have, descending; short_starts: uint64, sorted,
    distinct, the hashes of their first `shortest` words.
    """

    size: int
    shortest: int
    runs: NDArray[np.uint64]
    owners: NDArray[np.uint8]
    short_sizes: NDArray[np.int64]
    short_starts: NDArray[np.uint64]


def run_hashes(
    words: NDArray[np.uint64], offsets_T: NDArray[np.int64], size: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Every run of exactly `size` words of T texts: uint64 [runs], and the text of each, int64 [runs]."""
    runs = np.empty(len(words), np.uint64)
    texts = np.empty(len(words), np.int64)
    count = _run_hashes(words, offsets_T, size, runs, texts)
    return runs[:count], texts[:count]


def sieve(hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The bit map that lets `hashes` through."""
    bits = max(_SMALLEST_SIEVE, int(len(hashes) * _SIEVE_BITS).bit_length())
    made = np.zeros(1 << (bits - 3), np.uint8)
    _fill(made, hashes)
    return made


def overlaps(
    words: NDArray[np.uint64],
    offsets_T: NDArray[np.int64],
    known: Known,
    run_sieve: NDArray[np.uint8],
    short_sieve: NDArray[np.uint8],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many words of each text stand in a known run, int64 [T], and whose the first of those is, int64 [T]; -1: nobody's.

    The sieves are of `known.runs` and `known.short_starts`.
    """
    covered_T = np.zeros(len(offsets_T) - 1, np.int64)
    owner_T = np.full(len(offsets_T) - 1, -1, np.int64)
    longest = int(np.diff(offsets_T).max(initial=0))
    _overlaps(
        words,
        offsets_T,
        known.size,
        known.shortest,
        known.runs,
        known.owners,
        known.short_sizes,
        known.short_starts,
        run_sieve,
        short_sieve,
        np.empty(longest + 1, np.uint64),
        covered_T,
        owner_T,
    )
    return covered_T, owner_T


@njit
def _power(size: int) -> np.uint64:
    power = np.uint64(1)
    for _ in range(size):
        power *= _BASE
    return power


@njit
def _run_hash(prefixes: NDArray[np.uint64], begin: int, size: int, power: np.uint64) -> np.uint64:
    """`prefixes[i]` is the polynomial of the first i words; power is _BASE ** size."""
    return mix64(prefixes[begin + size] - prefixes[begin] * power + np.uint64(size))


@njit
def _prefixes(words: NDArray[np.uint64], prefixes: NDArray[np.uint64]) -> None:
    prefixes[0] = 0
    for i in range(len(words)):
        prefixes[i + 1] = prefixes[i] * _BASE + words[i]


@njit
def _run_hashes(
    words: NDArray[np.uint64],
    offsets_T: NDArray[np.int64],
    size: int,
    runs: NDArray[np.uint64],
    texts: NDArray[np.int64],
) -> int:
    count, power = 0, _power(size)
    prefixes = np.empty(len(words) + 1, np.uint64)
    for t in range(len(offsets_T) - 1):
        of_text = words[offsets_T[t] : offsets_T[t + 1]]
        _prefixes(of_text, prefixes)
        for begin in range(len(of_text) - size + 1):
            runs[count], texts[count] = _run_hash(prefixes, begin, size, power), t
            count += 1
    return count


@njit
def _fill(bits: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    mask = np.uint64(8 * len(bits) - 1)
    for i in range(len(hashes)):
        bit = hashes[i] & mask
        bits[bit >> np.uint64(3)] |= np.uint8(1) << np.uint8(bit & np.uint64(7))


@njit
def _passes(bits: NDArray[np.uint8], hashed: np.uint64) -> bool:
    bit = hashed & np.uint64(8 * len(bits) - 1)
    return bool((bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & np.uint8(1))


@njit
def _find(runs: NDArray[np.uint64], hashed: np.uint64) -> int:
    """Its place in a sorted array, or -1."""
    low, high = 0, len(runs)
    while low < high:
        middle = (low + high) // 2
        if runs[middle] < hashed:
            low = middle + 1
        else:
            high = middle
    return low if low < len(runs) and runs[low] == hashed else -1


@njit
def _overlaps(
    words: NDArray[np.uint64],
    offsets_T: NDArray[np.int64],
    size: int,
    shortest: int,
    runs: NDArray[np.uint64],
    owners: NDArray[np.uint8],
    short_sizes: NDArray[np.int64],
    short_starts: NDArray[np.uint64],
    run_sieve: NDArray[np.uint8],
    short_sieve: NDArray[np.uint8],
    prefixes: NDArray[np.uint64],
    covered_T: NDArray[np.int64],
    owner_T: NDArray[np.int64],
) -> None:
    power, short_power = _power(size), _power(shortest)
    for t in range(len(offsets_T) - 1):
        of_text = words[offsets_T[t] : offsets_T[t + 1]]
        _prefixes(of_text, prefixes)
        covered, until = 0, 0  # words before `until` are counted
        for begin in range(len(of_text) - shortest + 1):
            place, length = -1, size
            if begin + size <= len(of_text):
                hashed = _run_hash(prefixes, begin, size, power)
                if _passes(run_sieve, hashed):
                    place = _find(runs, hashed)
            if place < 0 and len(short_sizes):
                start = _run_hash(prefixes, begin, shortest, short_power)
                if _passes(short_sieve, start) and _find(short_starts, start) >= 0:
                    for length in short_sizes:
                        if begin + length <= len(of_text):
                            place = _find(runs, _run_hash(prefixes, begin, length, _power(length)))
                            if place >= 0:
                                break
            if place >= 0:
                if owner_T[t] < 0:
                    owner_T[t] = owners[place]
                covered += max(0, begin + length - max(until, begin))
                until = max(until, begin + length)
        covered_T[t] = covered


def run_hash_reference(run: Sequence[str]) -> int:
    """The definition of a run's hash."""
    hashed = 0
    for word in run:
        hashed = (hashed * int(_BASE) + word_hash_reference(word)) & MASK
    return mix64_reference((hashed + len(run)) & MASK)


def overlap_reference(words: Sequence[str], runs: Mapping[tuple[str, ...], int]) -> tuple[int, int]:
    """The definition of `overlaps` for one text: of each begin the longest known run counts."""
    covered, owner = set[int](), -1
    for begin in range(len(words)):
        for size in sorted({len(run) for run in runs}, reverse=True):
            run = tuple(words[begin : begin + size])
            found = runs.get(run)
            if found is not None and len(run) == size:
                covered |= set(range(begin, begin + size))
                owner = found if owner < 0 else owner
                break
    return len(covered), owner
