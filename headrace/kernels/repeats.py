"""How much of a document repeats itself, told by hashes of its parts: lines, paragraphs, and runs of n words.

Legend: a run of n words is told by prefix sums: `hashes[i]` is the polynomial hash of the first i words and `chars[i]` their
characters, so the words i to j have the hash hashes[j] - hashes[i] * BASE ** (j - i) and chars[j] - chars[i] characters.
Two parts are the same if 64 bits of hash say so: within one document the chance of an error is below (parts ** 2) / 2**65.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit
from headrace.kernels.mix import mix64

BASE: Final = np.uint64(0x9E3779B97F4A7C15)


@njit
def table_size(count: int) -> int:
    """Slots for `count` keys, of which a third stays free: a power of two."""
    size = 4
    while size < count + count // 2 + 1:
        size *= 2
    return size


@njit
def repeated_parts(
    hashes: NDArray[np.uint64], chars: NDArray[np.int64], keys: NDArray[np.uint64]
) -> tuple[int, int]:
    """How many parts are the same as an earlier one, and their characters. keys: scratch, table_size(parts) or more."""
    mask = np.uint64(table_size(len(hashes)) - 1)
    keys[: np.int64(mask) + 1] = 0
    repeated, repeated_chars = 0, 0
    for i in range(len(hashes)):
        key = mix64(hashes[i]) | np.uint64(1)  # 0 is an empty slot
        slot = key >> np.uint64(1) & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if keys[slot] == key:
            repeated += 1
            repeated_chars += chars[i]
        keys[slot] = key
    return repeated, repeated_chars


@njit
def non_unique_runs(
    hashes: NDArray[np.uint64],
    chars: NDArray[np.int64],
    n: int,
    begins: NDArray[np.int32],
    count: int,
    again: NDArray[np.bool_],
    keys: NDArray[np.uint64],
    firsts: NDArray[np.int32],
    counts: NDArray[np.int32],
) -> tuple[int, int]:
    """Of the first `count` of `begins`, ascending, keeps those where a run of n words begins that is also at another.

    Returns how many those are, and the characters in all occurrences of the run that occurs most often; of several as
    frequent the longest counts. again, keys, firsts, counts: scratch.
    """
    while count and begins[count - 1] + n >= len(hashes):
        count -= 1
    mask = np.uint64(table_size(count) - 1)
    keys[: np.int64(mask) + 1] = 0
    power = _power(n)
    most, most_chars = 1, 0
    for b in range(count):
        i = begins[b]
        key = mix64(hashes[i + n] - hashes[i] * power) | np.uint64(1)
        slot = key >> np.uint64(1) & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        again[b] = keys[slot] == key
        if not again[b]:
            keys[slot], firsts[slot], counts[slot] = key, b, 1
            continue
        again[firsts[slot]] = True
        counts[slot] += 1
        size = chars[i + n] - chars[i]
        if counts[slot] > most or (counts[slot] == most and size > most_chars):
            most, most_chars = counts[slot], size
    kept = 0
    for b in range(count):
        if again[b]:
            begins[kept] = begins[b]
            kept += 1
    return kept, most * most_chars


@njit
def repeated_runs(
    hashes: NDArray[np.uint64],
    chars: NDArray[np.int64],
    n: int,
    begins: NDArray[np.int32],
    count: int,
    keys: NDArray[np.uint64],
) -> int:
    """Characters in runs of n words that occurred before, left to right, each word counted once (Gopher, datatrove).

    begins: the first `count` are where a run of n words begins that is also at another: no other can be repeated.
    """
    mask = np.uint64(table_size(count) - 1)
    keys[: np.int64(mask) + 1] = 0
    power = _power(n)
    repeated_chars, free = 0, 0
    for b in range(count):
        i = begins[b]
        if i < free:
            continue
        key = mix64(hashes[i + n] - hashes[i] * power) | np.uint64(1)
        slot = key >> np.uint64(1) & mask
        while keys[slot] != 0 and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if keys[slot] == key:
            repeated_chars += chars[i + n] - chars[i]
            free = i + n
        keys[slot] = key
    return repeated_chars


@njit
def _power(n: int) -> np.uint64:
    power = np.uint64(1)
    for _ in range(n):
        power *= BASE
    return power


def repeated_parts_reference(parts: Sequence[Hashable], chars: Sequence[int]) -> tuple[int, int]:
    """The definition of `repeated_parts`, of the parts themselves."""
    seen = set[Hashable]()
    repeated = []
    for part, size in zip(parts, chars, strict=True):
        if part in seen:
            repeated.append(size)
        seen.add(part)
    return len(repeated), sum(repeated)


def repeated_runs_reference(words: Sequence[str], n: int) -> int:
    """The definition of `repeated_runs`."""
    seen = set[tuple[str, ...]]()
    repeated_chars = i = 0
    while i <= len(words) - n:
        run = tuple(words[i : i + n])
        if run in seen:
            repeated_chars += sum(map(len, run))
            i += n
        else:
            seen.add(run)
            i += 1
    return repeated_chars


def top_run_reference(words: Sequence[str], n: int) -> int:
    """The definition of what `non_unique_runs` says of the most frequent run, which has to occur twice."""
    counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    most, size = max(((count, sum(map(len, run))) for run, count in counts.items()), default=(0, 0))
    return most * size if most > 1 else 0
