"""From what the caller named to an ordered list of readable files, or one error that lists everything wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from headrace.dataeng.sources.base import MAX_DOCUMENT_BYTES, Columns, Probe, SourceFile, Unreadable, is_utf8
from headrace.dataeng.sources.compressed import StreamDamage, StreamReader, codec_of, decompress
from headrace.dataeng.sources.location import (
    expand_glob,
    file_size,
    is_file,
    list_directory,
    list_files,
    open_input,
    same_file,
)
from headrace.dataeng.sources.sidecars import is_sidecar
from headrace.dataeng.sources.unreadable import UnreadableProbe
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
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
}
_IN_WORDS: Final = {
    "parquet": "a Parquet file",
    "tfrecord": "a TFRecord file",
    "arrow": "an Arrow or Feather file",
    "jsonl": "JSON lines",
}
_FORMAT_NAMES: Final = "Parquet, Arrow, TFRecord or JSON lines"
_MAY_BE_EMPTY: Final = frozenset({"tfrecord", "jsonl"})  # a file of zero bytes is a file of zero rows
_MAY_BE_COMPRESSED: Final = frozenset({"tfrecord", "jsonl"})
_UNPACK: Final = {"gzip": "gunzip", "zstd": "zstd -d", "zlib": "pigz -dz"}
# Data that is refused by name rather than passed over in a directory.
_KNOWN_DATA: Final = frozenset({*_FORMATS, "csv"}) - {"json"}
_WRAPPERS: Final = frozenset({"gz", "zz", "zst", "zstd", "bz2", "xz", "lz4", "encrypted"})
_HEAD_BYTES: Final = 1 << 16
_MAX_LISTED: Final = 20
_MAX_NAME: Final = 80  # of a column, in messages: a hostile file may have one of megabytes

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovered:
    """The sources in order, the columns resolved, the files of directories that were passed over, and in words the damage
    that was met and allowed.
    """

    sources: tuple[SourceFile, ...]
    columns: Columns
    ignored: tuple[str, ...]
    damage: tuple[str, ...] = ()


def discover(
    places: Sequence[str],
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    raw_records: bool = False,
    whole_files: bool = False,
    slice_bytes: int = 4 << 20,
    max_document_bytes: int = MAX_DOCUMENT_BYTES,
    allow_damage: bool = False,
) -> Discovered:
    """Plans every file of `places` (paths, directories, globs, fsspec URIs), in the order given, directories sorted.

    `whole_files`: each file is one document, whatever it is; a directory is one source, with every file below it.
    `raw_records`: the payloads of TFRecord files are the texts themselves, not Examples.

    Raises:
        InputError: naming every file that cannot be read or whose schema conflicts, before any row is read.
        DamageError: damage that planning already sees, unless `allow_damage`; then a file of which nothing can be read is
            one damaged row, too.
    """
    if whole_files:
        return _discover_trees(places, text_column, id_column, slice_bytes, max_document_bytes)
    uris, ignored = _expand(places)

    def probe(uri: str) -> Probe:
        try:
            return _probe(uri, raw_records=raw_records)
        except Unreadable as error:
            if not allow_damage:
                raise
            return UnreadableProbe(uri, str(error))

    probes = _all(probe, uris)
    columns = _resolve(dict(zip(uris, probes, strict=True)), text_column, id_column)
    columns = replace(columns, raw_records=raw_records, max_document_bytes=max_document_bytes)
    planned = _all(lambda pair: pair[1].plan(pair[0], columns, slice_bytes), list(enumerate(probes)))
    damage = [f"{source.name}: {part.damage}" for source in planned for part in source.slices if part.damage]
    if damage and not allow_damage:
        raise DamageError(
            _listed("damaged", damage)
            + "\nRestore the files, or keep what is before the damage with --on-damage quarantine"
        )
    return Discovered(
        sources=tuple(planned),
        columns=columns,
        ignored=tuple(map(redact, ignored)),
        damage=tuple(damage),
    )


def _expand(places: Sequence[str]) -> tuple[list[str], list[str]]:
    found: list[str] = []
    ignored: list[str] = []
    problems: list[str] = []
    for place in places:
        below = list_directory(place)
        if below is not None:
            named = {uri.rpartition("/")[0] for uri in below if _data_suffix(uri) in _KNOWN_DATA}
            data = [uri for uri in below if _is_data(uri, beside_data=uri.rpartition("/")[0] in named)]
            ignored += sorted(set(below).difference(data))
            if not data:
                problems.append(f"{redact(place)}: a directory without {_FORMAT_NAMES}")
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
        raise InputError(
            f"no source was given; name files of {_FORMAT_NAMES}, directories or globs, or a list of them with --sources-from"
        )
    return found, ignored


def _discover_trees(
    places: Sequence[str], text_column: str | None, id_column: str | None, slice_bytes: int, longest: int
) -> Discovered:
    """Sources of which each file is a document; its path below the place is its id."""
    from headrace.dataeng.sources import files

    if text_column is not None or id_column is not None:
        raise InputError(
            "with --documents files a file is a text and its path is its id: leave out --text-column and --id-column"
        )
    problems: list[str] = []
    probes: list[files.TreeProbe] = []
    seen: set[str] = set()

    def add(uri: str, found: Sequence[tuple[str, int]]) -> None:
        for path, _ in found:
            file = os.path.normpath(f"{uri}/{path}")
            if file in seen:
                problems.append(f"{redact(file)}: given twice; it would be repeated")
            seen.add(file)
        probes.append(files.probe(uri, found))

    for place in places:
        below = list_files(place)
        if below is not None:
            add(place, below)
            if not below:
                problems.append(f"{redact(place)}: a directory without files")
        elif is_file(place):
            add(place, [("", file_size(place))])
        elif any(character in place for character in "*?["):
            matches = expand_glob(place)
            if not matches:
                problems.append(f"{redact(place)}: matches no file")
            # One source for the tree in which all matches are, so that ids are paths below it.
            base = re.split(r"[*?\[]", place, maxsplit=1)[0].rpartition("/")[0]
            within = [match for match in matches if not base or match.startswith(f"{base}/")]
            if within:
                add(base or ".", [(match.removeprefix(f"{base}/"), file_size(match)) for match in within])
            for match in sorted(set(matches).difference(within)):
                add(match, [("", file_size(match))])
        else:
            problems.append(f"{redact(place)}: no such file or directory")
    if problems:
        raise InputError(_listed("cannot be used", problems))
    if not probes:
        raise InputError("no source was given; name directories, globs or files of text")
    columns = Columns(text="", max_document_bytes=longest)
    planned = [probe.plan(number, columns, slice_bytes) for number, probe in enumerate(probes)]
    return Discovered(sources=tuple(planned), columns=columns, ignored=())


def _suffixes(uri: str) -> list[str]:
    return re.split(r"[/\\]", uri.lower())[-1].split(".")[1:]


def _data_suffix(uri: str) -> str | None:
    """The last extension that does not only say how the file is packed."""
    return next((suffix for suffix in reversed(_suffixes(uri)) if suffix not in _WRAPPERS), None)


def _is_data(uri: str, *, beside_data: bool) -> bool:
    """Whether a file found in a directory is data: by extension, or where that says little by its first bytes."""
    suffix = _data_suffix(uri)
    if suffix not in (None, "json"):
        return suffix in _KNOWN_DATA
    # `.json` is as often a description of data as data: it counts if its first line is an object.
    found = _look(uri)
    if suffix is None and _format_of(found.inner) is not None:
        return True
    from headrace.dataeng.sources.jsonl import begins_with_a_row

    if suffix == "json" and is_sidecar(uri, found.inner, beside_data=beside_data):
        return False
    return begins_with_a_row(found.inner)


@dataclass(frozen=True, slots=True)
class _Look:
    """The first bytes of a file as it is and decompressed, and its size."""

    head: bytes
    size: int
    codec: str | None
    inner: bytes


def _look(uri: str) -> _Look:
    with open_input(uri) as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
        codec = None if _format_of(head) else codec_of(head)
        inner = head
        if codec is not None:
            file.seek(0)
            try:
                inner = StreamReader(decompress(file, codec)).read(_HEAD_BYTES)
            except StreamDamage:
                inner = b""  # what is wrong is said, with its place, by the one who reads the file
            except InputError as error:
                raise InputError(f"{redact(uri)}: {error}") from None
    return _Look(head, size, codec, inner)


def _format_of(head: bytes) -> str | None:
    """The format whose first bytes cannot be mistaken."""
    from headrace.dataeng.sources.tfrecord import looks_like_tfrecord

    if head[:4] in (b"PAR1", b"PARE"):
        return "parquet"
    if head.startswith(b"ARROW1\0\0") or _begins_arrow_stream(head):
        return "arrow"
    return "tfrecord" if looks_like_tfrecord(head) else None


def _begins_arrow_stream(head: bytes) -> bool:
    """Whether the first bytes are the frame of a stream's schema: a marker, and the length of what follows."""
    return (
        head.startswith(b"\xff\xff\xff\xff")
        and len(head) >= 16
        and 0 < int.from_bytes(head[4:8], "little") < 1 << 24
    )


def _probe(uri: str, *, raw_records: bool) -> Probe:
    name, found, suffixes = redact(uri), _look(uri), _suffixes(uri)
    suffix = next((s for s in reversed(suffixes) if s in _FORMATS), None)
    expected = _FORMATS[suffix] if suffix else None
    actual = _format_of(found.inner)
    if found.size == 0 and expected in _MAY_BE_EMPTY and not _WRAPPERS & set(suffixes):
        actual = expected
    elif actual is None and (expected == "jsonl" or (expected is None and found.inner.lstrip()[:1] == b"{")):
        actual = "jsonl" if found.size and describe_foreign(found.inner) is None else None
    if actual is None or (expected or actual) != actual:
        wanted = _IN_WORDS[expected] if expected else _FORMAT_NAMES
        raise Unreadable(f"{name}: expected {wanted}, found {describe(found.head, found.size, found.inner)}")
    if found.codec is not None and actual not in _MAY_BE_COMPRESSED:
        raise Unreadable(
            f"{name}: {_IN_WORDS[actual]} inside {found.codec}; it is read by parts, so decompress it first "
            f"({_UNPACK[found.codec]})"
        )
    if actual == "parquet":
        from headrace.dataeng.sources import parquet

        return parquet.probe(uri, found.size)
    if actual == "arrow":
        from headrace.dataeng.sources import arrow

        return arrow.probe(uri, found.size)
    if actual == "jsonl":
        from headrace.dataeng.sources import jsonl

        return jsonl.probe(uri, found.size, found.codec)
    from headrace.dataeng.sources import tfrecord

    return tfrecord.probe(uri, found.size, found.codec, raw_records=raw_records)


def describe(head: bytes, size: int, inner: bytes | None = None) -> str:
    """What a file that is not what it should be is, as far as its first bytes say, and what to do about it."""
    if size == 0:
        return "zero bytes"
    if inner is not None and inner != head and (codec := codec_of(head)) is not None:
        return f"{codec} data with {describe(inner, len(inner)) if inner else 'damage in its first bytes'}"
    if (actual := _format_of(head)) is not None:
        return f"{_IN_WORDS[actual]}; rename it"
    if (foreign := describe_foreign(head)) is not None:
        return foreign
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON; rename it if it is JSON lines"
    return f"bytes that begin {head[:16].hex(' ')}"


def describe_foreign(head: bytes) -> str | None:
    """The name of a format that headrace does not read, or None."""
    for magic, kind, remedy in (
        (b"\x1f\x8b", "gzip", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"FEA1", "Feather version 1", "pandas.read_feather(FILE).to_parquet(NEW)"),
        (b"\xfd7zXZ\x00", "xz", "unxz"),
        (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
    ):
        if head.startswith(magic):
            return f"{kind} data, which is not read here: convert it first ({remedy})"
    stripped = head.lstrip()
    if stripped[:1] == b"<":
        return f"XML or HTML, perhaps a server's error saved in its place: {stripped[:40]!r}"
    return None


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
        f"one of {', '.join(repr(name[:_MAX_NAME]) for name in candidates[:_MAX_LISTED])}"
        if candidates
        else "none of them is text"
    )
    return (
        f"no column is called {' or '.join(TEXT_COLUMNS)}; name the text with --text-column: {which} "
        f"({redact(first)} has {_names(columns)})"
    )


def _names(columns: dict[str, str]) -> str:
    shown = [f"{name[:_MAX_NAME]!r} ({kind})" for name, kind in list(columns.items())[:_MAX_LISTED]]
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
        plural = "" if len(problems) == 1 else " each"
        alone = all(
            isinstance(outcome, Unreadable) for outcome in outcomes if isinstance(outcome, InputError)
        )
        remedy = (
            f"\n--on-damage quarantine rejects them, one row{plural}, and reads the others" if alone else ""
        )
        raise InputError(_listed("cannot be read", problems) + remedy)
    return [outcome for outcome in outcomes if not isinstance(outcome, InputError)]


def _listed(what: str, problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"  {problem}" for problem in problems[:_MAX_LISTED]]
    if len(problems) > _MAX_LISTED:
        lines.append(f"  and {len(problems) - _MAX_LISTED:,} more")
    return f"{len(problems):,} sources {what}:\n" + "\n".join(lines)
