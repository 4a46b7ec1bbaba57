"""What kind of character a code point is, as far as whole documents are judged by it.

Derived from the ranges of `words.py`, so that both agree on what a word is, and no version of Unicode changes a verdict:
a letter is whatever is in a word and is neither digit nor pictograph; marks count as letters.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.words import CLASSES

SPACE: Final = 1  # White_Space of Unicode
LETTER: Final = 2
DIGIT: Final = 4
ALONE: Final = 8  # a word of its own: of a script without spaces, or a pictograph
BULLET: Final = 16  # a line that begins with it is an item of a list
TERMINAL: Final = 32  # a line that ends with it ends a sentence

_SPACES: Final = ((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000))  # fmt: skip
_ZEROS: Final = (0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50,
    0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0xFF10)  # fmt: skip
_PICTOGRAPHS: Final = (0x1F000, 0x1FAFF)
_BULLETS: Final = "-*•‣⁃∙◦●○■□▪▫·–—"
_TERMINALS: Final = ".!?…։؟۔܀।॥၊။።፧፨᙮‼⁇⁈⁉⸮。！？．｡\"'”’»」』"


def _kinds() -> NDArray[np.uint8]:
    kinds = np.where(CLASSES > 0, LETTER, 0).astype(np.uint8)
    kinds[CLASSES == 2] |= ALONE
    kinds[_PICTOGRAPHS[0] : _PICTOGRAPHS[1] + 1] = ALONE
    for first, last in _SPACES:
        kinds[first : last + 1] = SPACE
    for zero in _ZEROS:
        kinds[zero : zero + 10] = DIGIT
    for characters, kind in ((_BULLETS, BULLET), (_TERMINALS, TERMINAL)):
        for character in characters:
            kinds[ord(character)] |= kind
    return kinds


# By code point below U+40000; those above are letters.
KINDS: Final = _kinds()


def kind(character: str) -> int:
    """The flags of one character."""
    return int(KINDS[ord(character)]) if ord(character) < len(KINDS) else LETTER
