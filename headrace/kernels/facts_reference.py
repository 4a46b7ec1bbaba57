"""The definition of every fact that `facts.py` counts, on strings."""

from __future__ import annotations

import numpy as np

from headrace.kernels.characters import ALONE, BULLET, DIGIT, KINDS, LETTER, SPACE, TERMINAL, kind
from headrace.kernels.facts import REPEATED_RUNS, SHORT_LINE, TOP_RUNS
from headrace.kernels.repeats import repeated_parts_reference, repeated_runs_reference, top_run_reference


def facts_reference(text: str) -> dict[str, int]:
    """Facts by name."""
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
