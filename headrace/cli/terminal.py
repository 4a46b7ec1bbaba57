"""Text for a terminal: cut to its width, and without characters that would do something to it."""

from __future__ import annotations

import unicodedata

from headrace.dataeng.printable import printable


def width(text: str) -> int:
    """Columns that printable `text` takes: two for wide characters, none for those that join the one before."""
    if text.isascii():
        return len(text)
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, columns: int) -> str:
    """One printable line of at most `columns` columns; what does not fit ends in an ellipsis."""
    text = printable(text)
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for c in text:
        used += _columns(c)
        if used > columns:
            break
        kept.append(c)
    return "".join(kept) + "…" if columns > 0 else ""


def duration(seconds: float) -> str:
    """As 0:06 or 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def table(rows: list[tuple[str, str]]) -> str:
    """Two columns, aligned."""
    widest = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:{widest}}  {value}".rstrip() for name, value in rows)
