"""From what the caller named to an ordered list of readable files, or one error that lists everything wrong."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from headrace.dataeng.sources.base import MAX_DOCUMENT_BYTES, Columns, Probe, SourceFile, Unreadable, is_utf8
from headrace.dataeng.sources.formats import FORMAT_NAMES, KNOWN_DATA, data_suffix, is_data, probe_file
from headrace.dataeng.sources.listing import listed
from headrace.dataeng.sources.location import (
    expand_glob,
    file_size,
    is_file,
    list_directory,
    list_files,
    same_file,
)
from headrace.dataeng.sources.resolve import resolve
from headrace.dataeng.sources.unreadable import UnreadableProbe
from headrace.dataeng.storage import redact
from headrace.errors import DamageError, InputError

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

    def look_at(uri: str) -> Probe:
        try:
            return probe_file(uri, raw_records=raw_records)
        except Unreadable as error:
            if not allow_damage:
                raise
            return UnreadableProbe(uri, str(error))

    probes = _all(look_at, uris)
    columns = resolve(dict(zip(uris, probes, strict=True)), text_column, id_column)
    columns = replace(columns, raw_records=raw_records, max_document_bytes=max_document_bytes)
    planned = _all(lambda pair: pair[1].plan(pair[0], columns, slice_bytes), list(enumerate(probes)))
    damage = [f"{source.name}: {part.damage}" for source in planned for part in source.slices if part.damage]
    if damage and not allow_damage:
        raise DamageError(
            listed("damaged", damage)
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
            named = {uri.rpartition("/")[0] for uri in below if data_suffix(uri) in KNOWN_DATA}
            data = [uri for uri in below if is_data(uri, beside_data=uri.rpartition("/")[0] in named)]
            ignored += sorted(set(below).difference(data))
            if not data:
                problems.append(f"{redact(place)}: a directory without {FORMAT_NAMES}")
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
        name = os.fsencode(uri)
        if not is_utf8(name):
            problems.append(f"{uri!a}: a name that is not UTF-8 cannot be recorded; rename the file")
        elif name.decode() != uri:  # what is recorded would depend on the locale
            problems.append(
                f"{name.decode()!a}: the locale makes Python read file names as {sys.getfilesystemencoding()}, and "
                "another name would be recorded than the file has; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
            )
    if problems:
        raise InputError(listed("cannot be used", problems))
    if not found:
        raise InputError(
            f"no source was given; name files of {FORMAT_NAMES}, directories or globs, or a list of them with --sources-from"
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
        raise InputError(listed("cannot be used", problems))
    if not probes:
        raise InputError("no source was given; name directories, globs or files of text")
    columns = Columns(text="", max_document_bytes=longest)
    planned = [probe.plan(number, columns, slice_bytes) for number, probe in enumerate(probes)]
    return Discovered(sources=tuple(planned), columns=columns, ignored=())


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
        raise InputError(listed("cannot be read", problems) + remedy)
    return [outcome for outcome in outcomes if not isinstance(outcome, InputError)]
