"""Normalised words of UTF-8 texts, and runs of n of them, as 64-bit hashes: what near-duplicates share.

A word is a run of letters, digits and marks; the rest separates words. Of scripts that put no spaces between words (Chinese,
Japanese, Thai, Lao, Tibetan, Burmese, Khmer, Yi) and of pictographs every character is a word. Letters below U+0600 (Latin,
Greek, Cyrillic, Armenian) count as their lower case. Nothing else is folded: é and e with an accent behind it are two.
The ranges are written out, so that no version of Unicode changes a hash.

Legend: T texts; words and shingles lie one text after another; offsets[t] to offsets[t + 1] are text t's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit
from headrace.kernels.mix import MASK, mix64, mix64_reference

_SEPARATOR, _IN_WORD, _WORD = 0, 1, 2
_SEPARATORS: Final = (
    (0x0000, 0x002F), (0x003A, 0x0040), (0x005B, 0x0060), (0x007B, 0x00A9), (0x00AB, 0x00B4), (0x00B6, 0x00B9),
    (0x00BB, 0x00BF), (0x00D7, 0x00D7), (0x00F7, 0x00F7), (0x037E, 0x037E), (0x0387, 0x0387), (0x055A, 0x055F),
    (0x0589, 0x058F), (0x05BE, 0x05BE), (0x05C0, 0x05C0), (0x05C3, 0x05C3), (0x05C6, 0x05C6), (0x05F3, 0x05F4),
    (0x060C, 0x060C), (0x061B, 0x061F), (0x066A, 0x066D), (0x06D4, 0x06D4), (0x0964, 0x0965), (0x10FB, 0x10FB),
    (0x1680, 0x1680), (0x2000, 0x200B), (0x200E, 0x206F), (0x20A0, 0x20CF), (0x2190, 0x2BFF), (0x2E00, 0x2E7F),
    (0x3000, 0x3004), (0x3008, 0x3020), (0x3030, 0x3030), (0x303D, 0x303F), (0x30FB, 0x30FB), (0xFE10, 0xFE1F),
    (0xFE30, 0xFE6F), (0xFEFF, 0xFEFF), (0xFF00, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65),
    (0xFFE0, 0xFFFF),
)  # fmt: skip
_WORDS: Final = (
    (0x0E00, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x302F), (0x3031, 0x303C), (0x3040, 0x30FA),
    (0x30FC, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0xA4CF), (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F), (0x1F000, 0x1FAFF), (0x20000, 0x3FFFF),
)  # fmt: skip
_FOLDED: Final = 0x600
_PRIME: Final = np.uint64(0x100000001B3)  # FNV-1a's, over characters
_START: Final = np.uint64(0xCBF29CE484222325)
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


def _classes() -> NDArray[np.uint8]:
    """By character below U+40000; above, all are in words."""
    classes = np.full(0x40000, _IN_WORD, np.uint8)
    for ranges, value in ((_SEPARATORS, _SEPARATOR), (_WORDS, _WORD)):
        for first, last in ranges:
            classes[first : last + 1] = value
    return classes


def _folded() -> NDArray[np.uint32]:
    """The lower case of each character below U+0600, itself where that is more than one character."""
    lower = [chr(code).lower() for code in range(_FOLDED)]
    return np.array([ord(low) if len(low) == 1 else code for code, low in enumerate(lower)], np.uint32)


CLASSES: Final = _classes()
FOLDED: Final = _folded()


def word_hashes(
    data: NDArray[np.uint8], offsets_T: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The words of T texts in UTF-8, uint64 [words], and where each text's begin, int64 [T + 1].

    Text t is data[offsets_T[t] : offsets_T[t + 1]].
    """
    num_bytes = int(offsets_T[-1] - offsets_T[0])
    # A word of one byte needs another to end it; those of several bytes have more than two.
    words = np.empty(num_bytes // 2 + len(offsets_T), np.uint64)
    word_offsets_T = np.empty(len(offsets_T), np.int64)
    count = _word_hashes(data, offsets_T, CLASSES, FOLDED, words, word_offsets_T)
    return words[:count], word_offsets_T


def shingle_hashes(
    words: NDArray[np.uint64], offsets_T: NDArray[np.int64], length: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Every run of `length` words of each text, uint64 [shingles], and where each text's begin, int64 [T + 1].

    A text of fewer words has one shingle, all of it; a text without words has none.
    """
    shingles = np.empty(len(words), np.uint64)
    shingle_offsets_T = np.empty(len(offsets_T), np.int64)
    count = _shingle_hashes(words, offsets_T, length, shingles, shingle_offsets_T)
    return shingles[:count], shingle_offsets_T


@njit
def _word_hashes(
    data: NDArray[np.uint8],
    offsets_T: NDArray[np.int64],
    classes: NDArray[np.uint8],
    folded: NDArray[np.uint32],
    words: NDArray[np.uint64],
    word_offsets_T: NDArray[np.int64],
) -> int:
    count = 0
    for t in range(len(offsets_T) - 1):
        word_offsets_T[t] = count
        text = data[offsets_T[t] : offsets_T[t + 1]]
        hashed, inside = _START, False
        at = 0
        while at < len(text):
            first = np.int64(text[at])
            if first < 0x80:
                code = first
                at += 1
            elif first < 0xE0:
                code = (first & 0x1F) << 6 | (np.int64(text[at + 1]) & 0x3F)
                at += 2
            elif first < 0xF0:
                code = (
                    (first & 0xF) << 12
                    | (np.int64(text[at + 1]) & 0x3F) << 6
                    | (np.int64(text[at + 2]) & 0x3F)
                )
                at += 3
            else:
                code = (first & 7) << 18 | (np.int64(text[at + 1]) & 0x3F) << 12
                code |= (np.int64(text[at + 2]) & 0x3F) << 6 | (np.int64(text[at + 3]) & 0x3F)
                at += 4
            kind = classes[code] if code < len(classes) else 1
            if kind == 1:
                letter = np.uint64(folded[code]) if code < len(folded) else np.uint64(code)
                hashed = (hashed ^ letter) * _PRIME
                inside = True
                continue
            if inside:
                words[count] = mix64(hashed)
                count += 1
                hashed, inside = _START, False
            if kind == 2:
                words[count] = mix64((_START ^ np.uint64(code)) * _PRIME)
                count += 1
        if inside:
            words[count] = mix64(hashed)
            count += 1
    word_offsets_T[len(offsets_T) - 1] = count
    return count


@njit
def _shingle_hashes(
    words: NDArray[np.uint64],
    offsets_T: NDArray[np.int64],
    length: int,
    shingles: NDArray[np.uint64],
    shingle_offsets_T: NDArray[np.int64],
) -> int:
    count = 0
    for t in range(len(offsets_T) - 1):
        shingle_offsets_T[t] = count
        of_text = words[offsets_T[t] : offsets_T[t + 1]]
        size = min(length, len(of_text))
        for begin in range(len(of_text) - size + 1 if size else 0):
            hashed = np.uint64(size)
            for i in range(size):
                hashed = hashed * _SPREAD + of_text[begin + i]
            shingles[count] = mix64(hashed)
            count += 1
    shingle_offsets_T[len(offsets_T) - 1] = count
    return count


def words_reference(text: str) -> list[str]:
    """The definition of a word, on a string."""
    words, word = [], ""
    for character in text:
        code = ord(character)
        kind = int(CLASSES[code]) if code < len(CLASSES) else _IN_WORD
        if kind == _IN_WORD:
            word += chr(FOLDED[code]) if code < _FOLDED else character
            continue
        words += [word] if word else []
        words += [character] if kind == _WORD else []
        word = ""
    return words + ([word] if word else [])


def shingles_reference(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    """The definition of the shingles of a text."""
    size = min(length, len(words))
    return [tuple(words[begin : begin + size]) for begin in range(len(words) - size + 1)] if size else []


def word_hash_reference(word: str) -> int:
    """The definition of a word's hash."""
    hashed = int(_START)
    for character in word:
        hashed = ((hashed ^ ord(character)) * int(_PRIME)) & MASK
    return mix64_reference(hashed)


def shingle_hash_reference(words: Sequence[str]) -> int:
    """The definition of a shingle's hash."""
    hashed = len(words)
    for word in words:
        hashed = (hashed * int(_SPREAD) + word_hash_reference(word)) & MASK
    return mix64_reference(hashed)
