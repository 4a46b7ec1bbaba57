"""One text column and one id column for all files, or everything that stands in the way of them."""

from __future__ import annotations

from typing import Final

from headrace.dataeng.sources.base import Columns, Probe
from headrace.dataeng.sources.listing import MAX_LISTED, listed
from headrace.dataeng.storage import redact
from headrace.errors import InputError

TEXT_COLUMNS: Final = ("text", "content", "raw_content", "document", "body")
_MAX_NAME: Final = 80  # of a column, in messages: a hostile file may have one of megabytes


def resolve(probes: dict[str, Probe], text: str | None, id_column: str | None) -> Columns:
    """One text column and one id column for all files, or everything that stands in the way."""
    # A file without a single record says nothing about its features, and nothing is asked of it.
    known = {uri: probe.columns for uri, probe in probes.items() if probe.columns}
    if text is None:
        usable = (c for c in TEXT_COLUMNS if any(_is_text(columns.get(c)) for columns in known.values()))
        text = next(usable, None)
        if text is None and known:
            raise InputError(_ask_for_text(known))
        text = text or TEXT_COLUMNS[0]
        accepted: tuple[str, ...] = ("text", "null")
    else:
        accepted = ("text", "null", "binary")
    problems = [
        problem
        for uri, columns in known.items()
        if (problem := _text_problem(uri, columns, text, accepted)) is not None
    ]
    if id_column is not None:
        problems += _id_problems(known, id_column)
    if problems:
        raise InputError(listed("do not have the columns asked for", problems))
    return Columns(text=text, id=id_column)


def _is_text(kind: str | None) -> bool:
    return kind in ("text", "binary", "null")


def _text_problem(uri: str, columns: dict[str, str], text: str, accepted: tuple[str, ...]) -> str | None:
    kind = columns.get(text)
    if kind is None:
        return f"{redact(uri)}: no column {text!r}; it has {_names(columns)}"
    if kind in accepted:
        return None
    if kind == "binary":
        return f"{redact(uri)}: column {text!r} is binary; say --text-column {text} to have it read as UTF-8"
    return f"{redact(uri)}: column {text!r} is {kind}, and text was expected"


def _id_problems(known: dict[str, dict[str, str]], name: str) -> list[str]:
    """Files without a usable id column, or with one of another kind than the first file that has one."""
    problems = []
    expected: str | None = None
    for uri, columns in known.items():
        kind = columns.get(name)
        if kind is None:
            problems.append(f"{redact(uri)}: no column {name!r} for the id; it has {_names(columns)}")
        elif kind not in ("text", "integer", "null"):
            problems.append(f"{redact(uri)}: the id column {name!r} is {kind}; text or integers serve")
        elif kind != "null":
            expected = expected or kind
            if kind != expected:
                problems.append(f"{redact(uri)}: the id column {name!r} is {kind}, in other files {expected}")
    return problems


def _ask_for_text(known: dict[str, dict[str, str]]) -> str:
    candidates = sorted(
        {name for columns in known.values() for name, kind in columns.items() if _is_text(kind)}
    )
    first, columns = next(iter(known.items()))
    which = (
        f"one of {', '.join(repr(name[:_MAX_NAME]) for name in candidates[:MAX_LISTED])}"
        if candidates
        else "none of them is text"
    )
    return (
        f"no column is called {' or '.join(TEXT_COLUMNS)}; name the text with --text-column: {which} "
        f"({redact(first)} has {_names(columns)})"
    )


def _names(columns: dict[str, str]) -> str:
    shown = [f"{name[:_MAX_NAME]!r} ({kind})" for name, kind in list(columns.items())[:MAX_LISTED]]
    more = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
