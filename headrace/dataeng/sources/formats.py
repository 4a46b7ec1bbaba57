"""What a file is, by its first bytes and its name: the format that reads it, or in words what it is instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.dataeng.sources.base import Probe, Unreadable
from headrace.dataeng.sources.compressed import StreamDamage, StreamReader, codec_of, decompress
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.sources.sidecars import is_sidecar
from headrace.dataeng.uris import redact
from headrace.errors import InputError

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
FORMAT_NAMES: Final = "Parquet, Arrow, TFRecord or JSON lines"
_MAY_BE_EMPTY: Final = frozenset({"tfrecord", "jsonl"})  # a file of zero bytes is a file of zero rows
_MAY_BE_COMPRESSED: Final = frozenset({"tfrecord", "jsonl"})
_UNPACK: Final = {"gzip": "gunzip", "zstd": "zstd -d", "zlib": "pigz -dz"}
# Data that is refused by name rather than passed over in a directory.
KNOWN_DATA: Final = frozenset({*_FORMATS, "csv"}) - {"json"}
_WRAPPERS: Final = frozenset({"gz", "zz", "zst", "zstd", "bz2", "xz", "lz4", "encrypted"})
_HEAD_BYTES: Final = 1 << 16


def _suffixes(uri: str) -> list[str]:
    return re.split(r"[/\\]", uri.lower())[-1].split(".")[1:]


def data_suffix(uri: str) -> str | None:
    """The last extension that does not only say how the file is packed."""
    return next((suffix for suffix in reversed(_suffixes(uri)) if suffix not in _WRAPPERS), None)


def is_data(uri: str, *, beside_data: bool) -> bool:
    """Whether a file found in a directory is data: by extension, or where that says little by its first bytes."""
    suffix = data_suffix(uri)
    if suffix not in (None, "json"):
        return suffix in KNOWN_DATA
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


def probe_file(uri: str, *, raw_records: bool) -> Probe:
    """A look at the file by the format that it is of. Raises Unreadable, InputError."""
    name, found, suffixes = redact(uri), _look(uri), _suffixes(uri)
    suffix = next((s for s in reversed(suffixes) if s in _FORMATS), None)
    expected = _FORMATS[suffix] if suffix else None
    actual = _format_of(found.inner)
    if found.size == 0 and expected in _MAY_BE_EMPTY and not _WRAPPERS & set(suffixes):
        actual = expected
    elif actual is None and (expected == "jsonl" or (expected is None and found.inner.lstrip()[:1] == b"{")):
        actual = "jsonl" if found.size and describe_foreign(found.inner) is None else None
    if actual is None or (expected or actual) != actual:
        wanted = _IN_WORDS[expected] if expected else FORMAT_NAMES
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
