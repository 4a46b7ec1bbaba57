"""Text of any origin, made safe to show to people."""

from __future__ import annotations


def printable(text: str, *, lines: bool = False) -> str:
    r"""`text` with every character that is not shown as itself spelt out, as \x1b or \u202e; a backslash stays one.

    Names and documents come from anywhere, and a terminal obeys what it is sent. lines: keep line ends and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _spelt(c) for c in text)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
