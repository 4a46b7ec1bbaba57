"""From what the caller named to an ordered list of readable files, or one error that lists everything wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from headrace.dataeng.sources.base import Columns, Probe, SourceFile, is_utf8
from headrace.dataeng.sources.location import expand_glob, is_file, list_directory, open_input, same_file
from headrace.dataeng.storage import redact
from headrace.errors import DamageError, InputError

TEXT_COLUMNS: Final = ("text", "content", "raw_content", "document", "body")
_FORMATS: Final = {
    "parquet": "parquet",
    "pq": "parquet",
    "parq": "parquet",
    "tfrecord": "tfrecord",
    "tfrecords": "tfrecord",
    "tfrec": "tfrecord",
}
# Data that is refused by name rather than passed over in a directory.
_KNOWN_DATA: Final = frozenset({*_FORMATS, "jsonl", "ndjson", "json", "arrow", "feather", "csv"})
_WRAPPERS: Final = frozenset({"gz", "zz", "zst", "zstd", "bz2", "xz", "lz4", "encrypted"})
_MAX_LISTED: Final = 20

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered:
    """The sources in order, the columns resolved, and the files of directories that were passed over."""

    sources: tuple[SourceFile, ...]
    columns: Columns
    ignored: tuple[str, ...]


def discover(
    places: Sequence[str],
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    slice_bytes: int = 4 << 20,
    allow_damage: bool = False,
) -> Discovered:
    """Plans every file of `places` (paths, directories, globs, fsspec URIs), in the order given, directories sorted.

    Raises:
        InputError: naming every file that cannot be read or whose schema conflicts, before any row is read.
        DamageError: damage that planning already sees, unless `allow_damage`.
    """
    uris, ignored = _expand(places)
    probes = _all(_probe, uris)
    columns = _resolve(dict(zip(uris, probes, strict=True)), text_column, id_column)
    planned = _all(lambda pair: pair[1].plan(pair[0], columns, slice_bytes), list(enumerate(probes)))
    damage = [f"{source.name}: {part.damage}" for source in planned for part in source.slices if part.damage]
    if damage and not allow_damage:
        raise DamageError(
            _listed("damaged", damage)
            + "\nRestore the files, or keep what is before the damage with --on-damage quarantine"
        )
    return Discovered(sources=tuple(planned), columns=columns, ignored=tuple(map(redact, ignored)))


def _expand(places: Sequence[str]) -> tuple[list[str], list[str]]:
    found: list[str] = []
    ignored: list[str] = []
    problems: list[str] = []
    for place in places:
        below = list_directory(place)
        if below is not None:
            data = [uri for uri in below if _is_data(uri)]
            ignored += sorted(set(below).difference(data))
            if not data:
                problems.append(f"{redact(place)}: a directory without Parquet or TFRecord files")
            found += data
        elif is_file(place):
            found.append(place)
        elif any(character in place for character in "*?["):
            matches = expand_glob(place)
            if not matches:
                problems.append(f"{redact(place)}: matches no file")
            found += matches
        else:
            problems.append(f"{redact(place)}: no such file or directory")
    seen: dict[str, str] = {}
    for uri in found:
        file = same_file(uri)
        if file in seen:
            spelt = "" if seen[file] == uri else f", as {redact(seen[file])} before"
            problems.append(f"{redact(uri)}: given twice{spelt}; its documents would be repeated")
        seen.setdefault(file, uri)
        if not is_utf8(os.fsencode(uri)):
            problems.append(f"{uri!a}: a name that is not UTF-8 cannot be recorded; rename the file")
    if problems:
        raise InputError(_listed("cannot be used", problems))
    if not found:
        raise InputError("no source was given; name Parquet or TFRecord files, directories or globs")
    return found, ignored


def _suffixes(uri: str) -> list[str]:
    return re.split(r"[/\\]", uri.lower())[-1].split(".")[1:]


def _is_data(uri: str) -> bool:
    """Whether a file found in a directory is data: by extension, or without one by its first bytes."""
    suffixes = _suffixes(uri)
    while suffixes and suffixes[-1] in _WRAPPERS:
        suffixes.pop()
    if suffixes:
        return suffixes[-1] in _KNOWN_DATA
    from headrace.dataeng.sources.tfrecord import looks_like_tfrecord

    head, _ = _look(uri)
    return head[:4] in (b"PAR1", b"PARE") or looks_like_tfrecord(head)


def _look(uri: str) -> tuple[bytes, int]:
    """The first bytes of a file, and its size."""
    with open_input(uri) as file:
        head = file.read(64)
        return head, file.seek(0, 2)


def _probe(uri: str) -> Probe:
    name = redact(uri)
    head, size = _look(uri)
    suffix = next((s for s in reversed(_suffixes(uri)) if s in _FORMATS), None)
    expected = _FORMATS[suffix] if suffix else None
    from headrace.dataeng.sources.tfrecord import looks_like_tfrecord

    if (looks_like_tfrecord(head) and expected != "parquet") or (size == 0 and expected == "tfrecord"):
        from headrace.dataeng.sources import tfrecord

        return tfrecord.probe(uri, size)
    if head[:4] in (b"PAR1", b"PARE") and expected != "tfrecord":
        from headrace.dataeng.sources import parquet

        return parquet.probe(uri, size)
    wanted = {"parquet": "a Parquet file", "tfrecord": "a TFRecord file"}.get(
        expected or "", "Parquet or TFRecord"
    )
    raise InputError(f"{name}: expected {wanted}, found {describe(head, size)}")


def describe(head: bytes, size: int) -> str:
    """What a file that is not what it should be is, as far as its first bytes say, and what to do about it."""
    from headrace.dataeng.sources.tfrecord import looks_like_tfrecord

    if size == 0:
        return "zero bytes"
    if head[:4] == b"PAR1":
        return "a Parquet file; rename it"
    if looks_like_tfrecord(head):
        return "a TFRecord file; rename it"
    for magic, kind, remedy in (
        (b"\x1f\x8b", "gzip", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"\xfd7zXZ\x00", "xz", "unxz"),
    ):
        if head.startswith(magic):
            return f"{kind} data; headrace does not read compressed files yet: decompress it first ({remedy})"
    if head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib data; headrace does not read compressed files yet: decompress it first (pigz -dz)"
    stripped = head.lstrip()
    if stripped[:1] in (b"{", b"["):
        return (
            "JSON; headrace does not read JSON lines yet: convert it to Parquet first, or name only the files that are "
            "meant, with a glob"
        )
    if stripped[:1] == b"<":
        return f"XML or HTML, perhaps a server's error saved in its place: {stripped[:40]!r}"
    return f"bytes that begin {head[:16].hex(' ')}"


def _resolve(probes: dict[str, Probe], text: str | None, id_column: str | None) -> Columns:
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
        raise InputError(_listed("do not have the columns asked for", problems))
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
        f"one of {', '.join(map(repr, candidates[:_MAX_LISTED]))}" if candidates else "none of them is text"
    )
    return (
        f"no column is called {' or '.join(TEXT_COLUMNS)}; name the text with --text-column: {which} "
        f"({redact(first)} has {_names(columns)})"
    )


def _names(columns: dict[str, str]) -> str:
    shown = [f"{name!r} ({kind})" for name, kind in list(columns.items())[:_MAX_LISTED]]
    more = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _all(action: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """`action` on every item, in threads; every InputError is kept, and all are raised as one."""

    def attempt(item: _T) -> _R | InputError:
        try:
            return action(item)
        except InputError as error:
            return error

    with ThreadPoolExecutor(max_workers=8) as pool:
        outcomes = list(pool.map(attempt, items))
    problems = [str(outcome) for outcome in outcomes if isinstance(outcome, InputError)]
    if problems:
        raise InputError(_listed("cannot be read", problems))
    return [outcome for outcome in outcomes if not isinstance(outcome, InputError)]


def _listed(what: str, problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"  {problem}" for problem in problems[:_MAX_LISTED]]
    if len(problems) > _MAX_LISTED:
        lines.append(f"  and {len(problems) - _MAX_LISTED:,} more")
    return f"{len(problems):,} sources {what}:\n" + "\n".join(lines)
