"""Texts on which tokenizers have been seen to differ: what a fast backend must agree on before it is used at all.

Made by rule rather than listed, so that every kind comes at the start, in the middle and at the end of a text, beside
letters, digits, blanks and line ends. The same on every machine. About 90 kB, which the reference encodes in well
under a tenth of a second.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

_BLANKS: Final = (
    " ", "  ", "   ", "\t", "\t\t ", "\n", "\n\n", "\n \n", "\r\n", "\r", " \n", "\n ", "\n  ", "  \n\n  ", "\v", "\f",
    "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u180e", "\u2000", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f",
    "\u205f", "\u2060", "\u3000", "\ufeff",
)  # fmt: skip
_PIECES: Final = (
    "a", "word", "Word", "WORD", "camelCase", "snake_case", "x1y2", "'s", "'S", "'T", "'ll", "'RE", "'ve", "'\u017f",
    "\u2019s", "don't", "DON'T", "I'M", "1", "12", "123", "1234", "12345678901234567890", "3.14", "1,000", "0x1F", "1e-9",
    "\u0661\u0662\u0663", "\u0967\u0968", "\u00b2\u00b3", "\u2167", "\u00bd", ".", "...", "!?", "(a)", "{};", "//", "#include",
    "-->", "<a>", "</s>", "$", "\u20ac", "a.b", "/n", "http://a.b/c?d=e&f", "\\n", "\"", "`", "\u3002", "\uff01", "\u00e9",
    "e\u0301", "\u00c5", "A\u030a", "\u212b", "\u1e9b\u0323", "\ufb01", "\uff21", "\u0130", "\u0131", "\u00df", "\u1e9e",
    "\u03a3\u03c2", "\u01c5", "\u10d0\u1c90", "\u13a0\uab70", "Stra\u00dfe", "\u043c\u0435\u043b\u044c", "\u6c34\u8eca",
    "\u65e5\u672c\u8a9e\u3067\u3059", "\u1112\u1161\u11ab", "\ud55c\uae00", "\u0e20\u0e32\u0e29\u0e32", "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u05e9\u05b8\u05c1", "\u0627\u0644\u0639\u064e\u0631", "\u202b\u0639\u202c", "\u1780\u17d2\u1798", "\U00020000\U0002a6d6",
    "\U0001f600", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\U0001d11e", "\U0001d400\U0001d7ce",
    "\U000e0041", "\U0001f3fb", "\ue000", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\0", "\x01", "\x7f", "\x80", "\xad",
    "\u0378", "\u0870", "\u1c89", "\ua7dc", "\U00010ec4", "\U00016d40", "\U0001e5d0", "\U00016ea0", "\U000323b0", "\U0001fadf", "\U0001fae9",
)  # fmt: skip
_RUNS: Final = (
    " ",
    "\n",
    "\r\n",
    "\t",
    "a",
    "A",
    "1",
    ".",
    "-",
    "=",
    "'s",
    "\u00e9",
    "\u6c34",
    "\U0001f600",
    "\0",
    "\u0301",
    "ab",
    "\xa0",
)
_RUN_LENGTHS: Final = (4, 17, 100, 513)
_KEY: Final = 0x70_72_74_75_72_65


def torture_set(tokens: Sequence[str] = ()) -> list[str]:
    """The texts. `tokens` are the added tokens of the tokenizer, whose look-alikes are among them."""
    return ["", *_crossings(), *_runs(), *_every_script(), *_look_alikes(tokens), *_mixtures(tokens)]


def _crossings() -> Iterator[str]:
    """Each piece with blanks about it, and each two blanks in a row about a word."""
    for number, piece in enumerate(_PIECES):
        blank = _BLANKS[number % len(_BLANKS)]
        yield piece
        yield f"{blank}{piece}{blank}"
        yield f"a{piece}1{piece} {piece}\n{piece}"
    for number, blank in enumerate(_BLANKS):
        other = _BLANKS[(number * 7 + 3) % len(_BLANKS)]
        yield blank
        yield f"{blank}{other}"
        yield f"a{blank}b{other}{blank}1{blank}.{other}"
        yield f"{blank}a{blank}{other}"


def _runs() -> Iterator[str]:
    for run in _RUNS:
        for length in _RUN_LENGTHS:
            yield run * length
        yield f"a{run * 33}b {run * 9}\n"


def _every_script() -> Iterator[str]:
    """One character in every 97 of all that can be in a text, in order: letters, marks and digits of every script."""
    points = [point for point in range(0x80, 0x110000, 97) if not 0xD800 <= point < 0xE000]
    named = [chr(p) for p in range(0x80, 0x3000, 11)] + [chr(p) for p in points if p < 0x20000 or p % 7 == 0]
    for begin in range(0, len(named), 64):
        yield "".join(named[begin : begin + 64])
        yield " ".join(named[begin : begin + 64 : 3])


def _look_alikes(tokens: Sequence[str]) -> Iterator[str]:
    """Text that spells the added tokens, and nearly does."""
    for token in list(tokens)[:64]:
        yield token
        yield f"a{token}b {token} {token}{token}\n{token}"
        yield token[:-1]
        yield f"{token[:1]} {token[1:]}"
        yield unicodedata.normalize("NFKC", token).swapcase()


def _mixtures(tokens: Sequence[str]) -> Iterator[str]:
    """Everything above thrown together by a fixed key, with and without blanks between."""
    draw = random.Random(_KEY)
    pool = [*_PIECES, *_BLANKS, *list(tokens)[:16]]
    for number in range(160):
        yield (" " if number % 2 else "").join(draw.choices(pool, k=draw.randint(2, 40)))
