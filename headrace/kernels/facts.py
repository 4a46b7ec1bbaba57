"""What can be counted of a document without knowing its language: characters, words, lines, paragraphs, repetition.

A *character* is a code point that is not white space. A *word* stands between white space; a character of a script without
spaces, or a pictograph, is a word of its own. A *line* stands between line feeds; white space around it does not belong to
it, and a line of nothing else is blank. A *paragraph* is the lines between blank lines.

Legend: T texts; facts_TF[t, f] is fact f, in the order of FACTS, of text t, which is data[offsets_T[t] : offsets_T[t + 1]].
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.characters import ALONE, BULLET, DIGIT, KINDS, LETTER, SPACE, TERMINAL, kind
from headrace.kernels.jit import njit
from headrace.kernels.mix import mix64
from headrace.kernels.repeats import (
    BASE,
    repeated_parts,
    repeated_parts_reference,
    repeated_runs,
    repeated_runs_reference,
    table_size,
    top_run,
    top_run_reference,
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
_TOP: Final = np.array(TOP_RUNS)
_REPEATED: Final = np.array(REPEATED_RUNS)
_PRIME: Final = np.uint64(0x100000001B3)  # FNV-1a's, over characters
_START: Final = np.uint64(0xCBF29CE484222325)


def facts(data: NDArray[np.uint8], offsets_T: NDArray[np.int64], *, runs: bool = True) -> NDArray[np.int64]:
    """int64 [T, F] of T texts in UTF-8. runs: whether the facts about runs of n words are wanted; else they are 0.

    Scratch memory follows the longest text: about 12 bytes for each of its own, at the very most 42.
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
        np.empty(table_size(parts), np.uint64),
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
    keys: NDArray[np.uint64],
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
        # Where no run of n words occurs twice, no longer one does.
        found, at = 1, _NUM_SCANNED + 5
        for n in _TOP:
            if found:
                found = top_run(hashes[0, : num_words + 1], chars[0, : num_words + 1], n, keys, counts)
                of_text[at] = found
            at += 1
        for n in _REPEATED:
            if found:
                found = repeated_runs(hashes[0, : num_words + 1], chars[0, : num_words + 1], n, keys)
                of_text[at] = found
            at += 1


@njit
def _scan(
    text: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    hashes: NDArray[np.uint64],
    chars: NDArray[np.int64],
    of_text: NDArray[np.int64],
) -> None:
    """One pass over the characters. hashes, chars: row 0 the prefix sums of words, 1 the lines, 2 the paragraphs."""
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
            hashes[0, words] = hashes[0, words - 1] * BASE + mix64(word_hash)
            chars[0, words] = chars[0, words - 1] + word_chars
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
            hashes[0, words] = hashes[0, words - 1] * BASE + mix64((_START ^ np.uint64(code)) * _PRIME)
            chars[0, words] = chars[0, words - 1] + 1
            told += (of_code & LETTER) != 0
            lettered += (of_code & LETTER) != 0
        else:
            word_hash = (word_hash ^ np.uint64(code)) * _PRIME
            word_chars += 1
            word_kind |= of_code
        if line_begin < 0:
            line_begin, line_first_kind = position, of_code
        line_hash = (line_hash ^ np.uint64(code)) * _PRIME
        line_whole, line_last_kind, line_dots = line_hash, of_code, 3 if code == 0x2026 else dots
        line_chars += 1
        position += 1
        line_end = position
    if paragraph_lines:
        hashes[2, paragraphs], chars[2, paragraphs] = paragraph_hash, paragraph_chars
        paragraphs += 1
    of_text[:_NUM_SCANNED] = (
        num_chars, letters, digits, words, told, lettered, spaced, spaced_chars, hash_signs, ellipses, line_feeds,
        lines, line_lengths, longest, bullets, ellipsis_lines, terminals, shorts,
    )  # fmt: skip
    of_text[_NUM_SCANNED + 2] = paragraphs


def facts_reference(text: str) -> dict[str, int]:
    """The definition of every fact, on a string."""
    spaces = "".join(map(chr, np.flatnonzero(KINDS & SPACE).tolist()))
    spaced_out = "".join(f" {c} " if kind(c) & ALONE else " " if kind(c) & SPACE else c for c in text)
    words = spaced_out.split(" ")
    words = [word for word in words if word]
    with_any = [word for word in words if any(kind(c) & (LETTER | DIGIT) for c in word)]
    spaced = [word for word in with_any if not kind(word[0]) & ALONE]
    every_line = [line.strip(spaces) for line in text.split("\n")]
    lines = [line for line in every_line if line]
    paragraphs: list[tuple[str, ...]] = []
    for number, line in enumerate(every_line):
        if line and number and every_line[number - 1]:
            paragraphs[-1] += (line,)
        elif line:
            paragraphs.append((line,))

    def size(line: str) -> int:
        return sum(not kind(c) & SPACE for c in line)

    repeated = repeated_parts_reference(lines, [size(line) for line in lines])
    again = repeated_parts_reference(paragraphs, [sum(map(size, lines)) for lines in paragraphs])
    return {
        "chars": size(text),
        "letters": sum(bool(kind(c) & LETTER) for c in text),
        "digits": sum(bool(kind(c) & DIGIT) for c in text),
        "words": len(words),
        "told_words": len(with_any),
        "lettered_words": sum(any(kind(c) & LETTER for c in word) for word in words),
        "spaced_words": len(spaced),
        "spaced_word_chars": sum(map(len, spaced)),
        "hashes": text.count("#"),
        "ellipses": text.count("...") + text.count("…"),
        "line_feeds": text.count("\n"),
        "lines": len(lines),
        "line_chars": sum(map(len, lines)),
        "longest_line": max(map(len, lines), default=0),
        "bullet_lines": sum(bool(kind(line[0]) & BULLET) for line in lines),
        "ellipsis_lines": sum(line.endswith(("...", "…")) for line in lines),
        "terminal_lines": sum(bool(kind(line[-1]) & TERMINAL) for line in lines),
        "short_lines": sum(len(line) <= SHORT_LINE for line in lines),
        "repeated_lines": repeated[0],
        "repeated_line_chars": repeated[1],
        "paragraphs": len(paragraphs),
        "repeated_paragraphs": again[0],
        "repeated_paragraph_chars": again[1],
        **{f"top_{n}gram_chars": top_run_reference(words, n) for n in TOP_RUNS},
        **{f"repeated_{n}gram_chars": repeated_runs_reference(words, n) for n in REPEATED_RUNS},
    }
