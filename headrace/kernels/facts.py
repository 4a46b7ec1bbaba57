"""What can be counted of a document without knowing its language: characters, words, lines, paragraphs, repetition.

A *character* is a code point that is not white space. A *word* stands between white space; a character of a script without
spaces, or a pictograph, is a word of its own. A *line* stands between line feeds; white space around it does not belong to
it, and a line of nothing else is blank. A *paragraph* is the lines between blank lines. `facts_reference.py` defines each.

Legend: T texts; facts_TF[t, f] is fact f, in the order of FACTS, of text t, which is data[offsets_T[t] : offsets_T[t + 1]].
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.characters import ALONE, BULLET, DIGIT, KINDS, LETTER, SPACE, TERMINAL
from headrace.kernels.jit import njit
from headrace.kernels.mix import mix64
from headrace.kernels.repeats import (
    BASE,
    non_unique_runs,
    repeated_parts,
    repeated_runs,
    table_size,
)

TOP_RUNS: Final = (2, 3, 4)
REPEATED_RUNS: Final = (5, 6, 7, 8, 9, 10)
SHORT_LINE: Final = 30  # characters of a line, white space between its words included, at most
FACTS: Final = (
    "chars", "letters", "digits",
    "words",
    "told_words",  # with a letter or a digit
    "lettered_words",  # with a letter
    "spaced_words", "spaced_word_chars",  # with a letter or a digit, of scripts with spaces
    "hashes",  # the sign
    "ellipses",  # the sign, or three dots
    "line_feeds",
    "lines",  # that are not blank
    "line_chars", "longest_line",  # white space between words included
    "bullet_lines",  # begin with a bullet
    "ellipsis_lines",  # end with an ellipsis
    "terminal_lines",  # end a sentence
    "short_lines",
    "repeated_lines", "repeated_line_chars",  # the same as an earlier one
    "paragraphs", "repeated_paragraphs", "repeated_paragraph_chars",
    *(f"top_{n}gram_chars" for n in TOP_RUNS),
    *(f"repeated_{n}gram_chars" for n in REPEATED_RUNS),
)  # fmt: skip
_NUM_SCANNED: Final = FACTS.index("repeated_lines")
_SHORTEST_RUN: Final = TOP_RUNS[0]  # those of every length up to the longest are facts
_SHORTEST_REPEATED: Final = REPEATED_RUNS[0]
_LONGEST_RUN: Final = REPEATED_RUNS[-1]
_PRIME: Final = np.uint64(0x100000001B3)  # FNV-1a's, over characters
_START: Final = np.uint64(0xCBF29CE484222325)


def facts(data: NDArray[np.uint8], offsets_T: NDArray[np.int64], *, runs: bool = True) -> NDArray[np.int64]:
    """int64 [T, F] of T texts in UTF-8. runs: whether the facts about runs of n words are wanted; else they are 0.

    Scratch memory follows the longest text: about 12 bytes for each of its own, at the very most 50.
    """
    longest = int(np.diff(offsets_T).max(initial=0))
    parts = longest // 2 + 2  # a part of one byte needs another to end it
    facts_TF = np.zeros((len(offsets_T) - 1, len(FACTS)), np.int64)
    _facts(
        data,
        offsets_T,
        KINDS,
        runs,
        np.empty((3, parts), np.uint64),
        np.empty((3, parts), np.int64),
        np.empty(parts, np.int32),
        np.empty(parts, np.bool_),
        np.empty(table_size(parts), np.uint64),
        np.empty(table_size(parts), np.int32),
        np.empty(table_size(parts), np.int32),
        facts_TF,
    )
    return facts_TF


@njit
def _facts(
    data: NDArray[np.uint8],
    offsets_T: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    runs: bool,
    hashes: NDArray[np.uint64],
    chars: NDArray[np.int64],
    begins: NDArray[np.int32],
    again: NDArray[np.bool_],
    keys: NDArray[np.uint64],
    firsts: NDArray[np.int32],
    counts: NDArray[np.int32],
    facts_TF: NDArray[np.int64],
) -> None:
    for t in range(len(offsets_T) - 1):
        text, of_text = data[offsets_T[t] : offsets_T[t + 1]], facts_TF[t]
        _scan(text, kinds, hashes, chars, of_text)
        num_words, num_lines, num_paragraphs = of_text[3], of_text[11], of_text[_NUM_SCANNED + 2]
        of_text[_NUM_SCANNED], of_text[_NUM_SCANNED + 1] = repeated_parts(
            hashes[1, :num_lines], chars[1, :num_lines], keys
        )
        if of_text[_NUM_SCANNED]:  # a paragraph that is repeated has lines that are
            of_text[_NUM_SCANNED + 3], of_text[_NUM_SCANNED + 4] = repeated_parts(
                hashes[2, :num_paragraphs], chars[2, :num_paragraphs], keys
            )
        if not runs:
            continue
        # A run that occurs twice begins with a shorter one that does.
        count, at = num_words, _NUM_SCANNED + 5
        for i in range(count):
            begins[i] = i
        for n in range(_SHORTEST_RUN, _LONGEST_RUN + 1):
            count, top = non_unique_runs(
                hashes[0, : num_words + 1],
                chars[0, : num_words + 1],
                n,
                begins,
                count,
                again,
                keys,
                firsts,
                counts,
            )
            if not count:
                break
            of_text[at] = (
                top
                if n < _SHORTEST_REPEATED
                else repeated_runs(
                    hashes[0, : num_words + 1], chars[0, : num_words + 1], n, begins, count, keys
                )
            )
            at += 1


@njit
def _scan(
    text: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    chars: NDArray[np.int64],
    of_text: NDArray[np.int64],
) -> None:
    """One pass over the characters. hashes, chars: row 0 the prefix sums of words, 1 the lines, 2 the paragraphs.

    A line is hashed as its words and the white space between them, a paragraph as its lines.
    """
    num_chars = letters = digits = words = told = lettered = spaced = spaced_chars = 0
    hash_signs = ellipses = line_feeds = lines = line_lengths = longest = 0
    bullets = ellipsis_lines = terminals = shorts = paragraphs = 0
    hashes[0, 0], chars[0, 0] = 0, 0
    word_hash, word_chars, word_kind = _START, 0, np.int64(0)
    line_hash, line_whole, line_begin, line_end, line_chars = _START, _START, -1, -1, 0
    line_first_kind, line_last_kind, line_dots = np.int64(0), np.int64(0), 0
    paragraph_hash, paragraph_chars, paragraph_lines = _START, 0, 0
    dots, position, at = 0, 0, 0
    while at <= len(text):
        if at == len(text):
            code, of_code = np.int64(10), np.int64(SPACE)  # the end is the end of a line
        elif text[at] < 0x80:
            code = np.int64(text[at])
            of_code = np.int64(kinds[code])
        else:
            first = np.int64(text[at])
            if first < 0xE0:
                code = (first & 0x1F) << 6 | (np.int64(text[at + 1]) & 0x3F)
                at += 1
            elif first < 0xF0:
                code = (first & 0xF) << 12 | (np.int64(text[at + 1]) & 0x3F) << 6
                code |= np.int64(text[at + 2]) & 0x3F
                at += 2
            else:
                code = (first & 7) << 18 | (np.int64(text[at + 1]) & 0x3F) << 12
                code |= (np.int64(text[at + 2]) & 0x3F) << 6 | (np.int64(text[at + 3]) & 0x3F)
                at += 3
            of_code = np.int64(kinds[code]) if code < len(kinds) else np.int64(LETTER)
        at += 1
        if code == 46:  # a dot
            dots += 1
        else:
            ellipses += dots // 3 + (code == 0x2026)
            dots = 0
        if word_chars and of_code & (SPACE | ALONE):
            words += 1
            hashed = mix64(word_hash)
            hashes[0, words] = hashes[0, words - 1] * BASE + hashed
            chars[0, words] = chars[0, words - 1] + word_chars
            line_hash = mix64(line_hash ^ hashed)
            line_whole = line_hash
            if word_kind & (LETTER | DIGIT):
                told += 1
                spaced += 1
                spaced_chars += word_chars
            lettered += (word_kind & LETTER) != 0
            word_hash, word_chars, word_kind = _START, 0, np.int64(0)
        if of_code & SPACE:
            if line_begin >= 0:
                line_hash = (line_hash ^ np.uint64(code)) * _PRIME
            if code == 10:
                line_feeds += at <= len(text)
                if line_begin >= 0:
                    length = line_end - line_begin
                    hashes[1, lines], chars[1, lines] = line_whole, line_chars
                    lines += 1
                    line_lengths += length
                    longest = max(longest, length)
                    shorts += length <= SHORT_LINE
                    bullets += (line_first_kind & BULLET) != 0
                    terminals += (line_last_kind & TERMINAL) != 0
                    ellipsis_lines += line_dots >= 3
                    paragraph_hash = mix64(paragraph_hash ^ line_whole)
                    paragraph_chars += line_chars
                    paragraph_lines += 1
                    line_hash, line_begin, line_chars = _START, -1, 0
                elif paragraph_lines:
                    hashes[2, paragraphs], chars[2, paragraphs] = paragraph_hash, paragraph_chars
                    paragraphs += 1
                    paragraph_hash, paragraph_chars, paragraph_lines = _START, 0, 0
            position += 1
            continue
        num_chars += 1
        letters += (of_code & LETTER) != 0
        digits += (of_code & DIGIT) != 0
        hash_signs += code == 35
        if of_code & ALONE:
            words += 1
            hashed = mix64((_START ^ np.uint64(code)) * _PRIME)
            hashes[0, words] = hashes[0, words - 1] * BASE + hashed
            chars[0, words] = chars[0, words - 1] + 1
            line_hash = mix64(line_hash ^ hashed)
            line_whole = line_hash
            told += (of_code & LETTER) != 0
            lettered += (of_code & LETTER) != 0
        else:
            word_hash = (word_hash ^ np.uint64(code)) * _PRIME
            word_chars += 1
            word_kind |= of_code
        if line_begin < 0:
            line_begin, line_first_kind = position, of_code
        line_last_kind, line_dots = of_code, 3 if code == 0x2026 else dots
        line_chars += 1
        position += 1
        if (
            word_chars
        ):  # most of a text is the rest of words in ASCII letters, of which there is little to say
            begin = at
            while at < len(text) and text[at] < 0x80 and kinds[text[at]] == LETTER:
                word_hash = (word_hash ^ np.uint64(text[at])) * _PRIME
                at += 1
            if at > begin:
                ellipses += dots // 3
                dots = line_dots = 0
                word_kind |= LETTER
                line_last_kind = np.int64(LETTER)
                num_chars += at - begin
                letters += at - begin
                word_chars += at - begin
                line_chars += at - begin
                position += at - begin
        line_end = position
    if paragraph_lines:
        hashes[2, paragraphs], chars[2, paragraphs] = paragraph_hash, paragraph_chars
        paragraphs += 1
    of_text[:_NUM_SCANNED] = (
        num_chars, letters, digits, words, told, lettered, spaced, spaced_chars, hash_signs, ellipses, line_feeds,
        lines, line_lengths, longest, bullets, ellipsis_lines, terminals, shorts,
    )  # fmt: skip
    of_text[_NUM_SCANNED + 2] = paragraphs
