"""JSON lines: one object a line, plain or compressed as a whole; parsed strictly, streamed in bounded memory.

A line ends with a line feed; a carriage return before it is white space of JSON. Lines of white space only are not
rows, and a byte order mark at the beginning of the file is not part of its first line. A row is a line that is one
JSON object in UTF-8, whole: what stands in fields that nobody asked for is checked too. Of a key that is given twice
the last value counts.

A plain file is cut into ranges of bytes, and a line belongs to the range in which it begins, so that where the cuts
are does not depend on what is in the file. A compressed file is one slice.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, BinaryIO, Final

import orjson

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    NO_TEXT,
    NOT_JSON,
    NOT_OBJECT,
    NOT_TEXT,
    NOT_UTF8,
    NULL,
    TOO_LARGE,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    Unreadable,
    is_utf8,
    require_planned,
    sampled_fingerprint,
    size_reason,
)
from headrace.dataeng.sources.compressed import StreamDamage, decompress
from headrace.dataeng.sources.lines import Line, lines_of_range, split_lines
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.storage import redact
from headrace.errors import InputError

_HEAD_BYTES: Final = 1 << 16
_PROBED_LINES: Final = 64
_PROBED_BYTES: Final = 4 << 20
_PROBED_DEPTH: Final = 4
_EXPANSION: Final = 4  # of compressed text, for planning only
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class JsonLinesProbe:
    """Fields of the first lines; the others are taken as they come."""

    uri: str = field(repr=False)
    size: int
    codec: str | None
    fingerprint: str
    columns: dict[str, str]

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """Cuts a plain file into ranges of `slice_bytes`."""
        del columns  # a line is parsed whole, whatever is wanted of it
        step, expansion = (slice_bytes, 1) if self.codec is None else (max(self.size, 1), _EXPANSION)
        slices = [
            Slice(
                file=file,
                row_group=number,
                num_rows=None,
                text_bytes=(min(begin + step, self.size) - begin) * expansion,
                byte_offset=begin,
                byte_end=min(begin + step, self.size),
            )
            for number, begin in enumerate(range(0, self.size, step))
        ]
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="jsonl",
            codec=self.codec,
            size=self.size,
            fingerprint=self.fingerprint,
            num_rows=None if slices else 0,
            slices=tuple(slices),
        )


def probe(uri: str, size: int, codec: str | None) -> JsonLinesProbe:
    """Looks at the first lines. Raises InputError if none of them is a row."""
    name = redact(uri)
    columns: dict[str, str] = {}
    problem = None
    with open_input(uri) as file:
        fingerprint = sampled_fingerprint("jsonl", file, size)
        try:
            for number, line in enumerate(islice(_sample(file, codec), _PROBED_LINES)):
                value, reason = _parse(line)
                if reason is None:
                    _note_kinds(value, "", columns)
                elif problem is None:
                    problem = f"line {number:,} at byte {line.offset:,} is {_IN_WORDS[reason]}"
        except StreamDamage as error:
            problem = str(error)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
    if problem is not None and not columns:
        raise Unreadable(f"{name}: expected JSON lines, one object a line, but {problem}")
    return JsonLinesProbe(uri, size, codec, fingerprint, columns)


_IN_WORDS: Final = {
    NOT_JSON: "not one JSON value (more than one, a syntax error, a lone surrogate, or nested too deep)",
    NOT_OBJECT: "JSON, but not an object; if the file is one large array, write one element a line: jq -c '.[]'",
    NOT_UTF8: "not UTF-8",
    TOO_LARGE: "too long",
}


def begins_with_a_row(head: bytes) -> bool:
    """Whether the first bytes of a file are a whole line that is a row, or the beginning of one with no line end yet."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    first, end, _ = text.partition(b"\n")
    if not end and len(head) >= _HEAD_BYTES:
        return first.startswith(b"{")
    return _parse(Line(0, len(first), first))[1] is None


def _sample(file: BinaryIO, codec: str | None) -> Iterator[Line]:
    """The first lines, as far as they end within the first _PROBED_BYTES."""
    chunks = decompress(file, codec) if codec is not None else iter(lambda: file.read(1 << 20), b"")
    seen = 0

    def bounded() -> Iterator[bytes]:
        nonlocal seen
        for chunk in chunks:
            seen += len(chunk)
            yield chunk
            if seen >= _PROBED_BYTES:
                return

    lines = _rows(split_lines(bounded(), 2 * _PROBED_BYTES))
    line = next(lines, None)
    for following in lines:
        assert line is not None
        yield line
        line = following
    if line is not None and seen < _PROBED_BYTES:
        yield line


def _note_kinds(value: Any, prefix: str, columns: dict[str, str]) -> None:
    """Adds the kind of every field, those of objects under `outer.inner`; text prevails over other kinds, null yields."""
    for name, inner in value.items():
        path, kind = f"{prefix}{name}", _kind(inner)
        if kind == "object" and prefix.count(".") < _PROBED_DEPTH:
            _note_kinds(inner, f"{path}.", columns)
        known = columns.get(path, "null")
        if known == "null" or kind == "text":
            columns[path] = kind


def _kind(value: Any) -> str:
    names = {str: "text", int: "integer", type(None): "null", dict: "object", list: "list", bool: "boolean"}
    return names.get(type(value), "float")


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every row of the slice. See `read_slice`."""
    assert part.byte_offset is not None
    assert part.byte_end is not None
    require_planned(source)
    text, name = _Field(columns.text), None if columns.id is None else _Field(columns.id)
    reader = _Builder(text, name, columns.max_document_bytes)
    with open_input(source.uri) as file:
        if source.codec is None:
            lines = lines_of_range(file, part.byte_offset, part.byte_end, columns.max_row_bytes)
        else:
            lines = split_lines(decompress(file, source.codec), columns.max_row_bytes)
        try:
            for line in _rows(lines):
                reader.add(line)
                if reader.is_full():
                    yield reader.build()
        except StreamDamage as error:
            if reader.offsets:
                yield reader.build()
            intact = _rows_within(source, error.intact, columns.max_row_bytes)
            raise SourceDamage(
                f"{source.name}: {error}; the {intact:,} rows before that are whole, what follows cannot be read",
                intact,
            ) from None
    if reader.offsets:
        yield reader.build()


def _rows_within(source: SourceFile, intact: int, longest: int) -> int:
    """How many rows lie wholly in the first `intact` bytes of a stream that is damaged. Reads it again: damage is rare."""
    assert source.codec is not None
    count = 0
    with open_input(source.uri) as file:
        try:
            for line in _rows(split_lines(decompress(file, source.codec), longest)):
                if line.end > intact:
                    break
                count += 1
        except StreamDamage:
            pass
    return count


def _rows(lines: Iterator[Line]) -> Iterator[Line]:
    """Without the byte order mark of the file, and without lines of white space only."""
    first = next(lines, None)
    if first is None:
        return
    if first.offset == 0 and first.data is not None and first.data.startswith(codecs.BOM_UTF8):
        first = first._replace(offset=len(codecs.BOM_UTF8), data=first.data[len(codecs.BOM_UTF8) :])
    for line in chain([first], lines):
        if line.data is None or (line.data and not line.data.isspace()):
            yield line


class _Field:
    """Finds a field: by its name if the object has it so, else by the path that the name spells with dots."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = name.split(".") if "." in name else []

    def of(self, row: dict[str, Any]) -> Any:
        """The value; None also where something on the path is null; _MISSING where there is none."""
        value: Any = row.get(self.name, _MISSING)
        if value is not _MISSING or not self._path:
            return value
        value = row
        for key in self._path:
            if value is None:
                return None
            value = value.get(key, _MISSING) if type(value) is dict else _MISSING
        return value


class _Builder:
    """Batches in the making, one after another."""

    def __init__(self, text: _Field, name: _Field | None, longest: int) -> None:
        self._text, self._name, self._longest = text, name, longest
        self._first_row = 0
        self._begin()

    def _begin(self) -> None:
        self._texts: list[bytes | None] = []
        self._ids: list[str | None] = []
        self._rejects: dict[int, str] = {}
        self._bytes = 0
        self.offsets: list[int] = []

    def add(self, line: Line) -> None:
        text, name, reason = _document(line, self._text, self._name, self._longest)
        if reason is not None:
            self._rejects[len(self.offsets)] = reason
            text = name = None
        self._texts.append(text)
        self._ids.append(name)
        self.offsets.append(line.offset)
        self._bytes += len(line.data or b"")

    def is_full(self) -> bool:
        return len(self.offsets) >= BATCH_ROWS or self._bytes >= BATCH_BYTES

    def build(self) -> Batch:
        """The batch; the next one begins behind it."""
        ids = self._ids if self._name is not None else None
        batch = Batch.of(
            first_row=self._first_row,
            texts=self._texts,
            ids=ids,
            byte_offsets=self.offsets,
            rejects=self._rejects,
        )
        self._first_row += len(self._texts)
        self._begin()
        return batch


def _parse(line: Line) -> tuple[dict[str, Any], str | None]:
    """The object, or an empty one and why the line is none."""
    if line.data is None:
        return {}, TOO_LARGE
    try:
        value = orjson.loads(line.data)
    except orjson.JSONDecodeError:
        return {}, NOT_JSON if is_utf8(line.data) else NOT_UTF8
    return (value, None) if type(value) is dict else ({}, NOT_OBJECT)


def _document(
    line: Line, text: _Field, name: _Field | None, longest: int
) -> tuple[bytes | None, str | None, str | None]:
    """(text, id, reason) of one line."""
    row, reason = _parse(line)
    if reason is not None:
        return None, None, reason
    value = text.of(row)
    if type(value) is not str:
        return None, None, NULL if value is None else NO_TEXT if value is _MISSING else NOT_TEXT
    data = value.encode()
    if (reason := size_reason(data, longest)) is not None or name is None:
        return data, None, reason
    identity = name.of(row)
    if type(identity) is int:
        identity = str(identity)
    return data, identity if type(identity) is str else None, None
