"""What every source is: a file, its fingerprint, and the slices in which it is read.

    discover ──> Probe (schema) ──> SourceFile (slices) ──> read_slice ──> Batch, Batch, ...

A *row* is the position of a document: within its row group for Parquet, within its file or its range of bytes for
formats that are read as streams. Rows of a slice are read in order and each is either a text or a reject; nothing else
can happen to it. How many a stream has is known once it was read: planning reads no more than the ends of a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.sources.location import open_input
from headrace.errors import DamageError, InputError

# Why a row is not a document. Each is counted in the manifest and listed in the rejects files.
NULL: Final = "null"  # the text is null
EMPTY: Final = "empty"  # the text has no bytes
BLANK: Final = "blank"  # the text is ASCII white space only
NOT_UTF8: Final = "not_utf8"  # the bytes of the text, or of the id, are not UTF-8
NO_TEXT: Final = "no_text"  # a record without the text feature, a line without the text field
NOT_TEXT: Final = (
    "not_text"  # a record whose text feature is not one byte string, a line whose field is not a string
)
NOT_EXAMPLE: Final = "not_example"  # a record that is not a tf.train.Example
NO_TOKENS: Final = "no_tokens"  # the tokenizer makes nothing of the text
NOT_TOKENIZABLE: Final = "not_tokenizable"  # the tokenizer gives up on the text
NOT_JSON: Final = "not_json"  # a line that is not one JSON value in UTF-8
NOT_OBJECT: Final = "not_object"  # a line that is JSON, but not an object
BINARY: Final = "binary"  # a file that is not text
TOO_LARGE: Final = "too_large"  # over --max-document-bytes, in a row of 256 MiB or 16 times that, or the tokens do not fit any shard
DAMAGED: Final = "damaged"  # the bytes are not the ones that were written

MAX_DOCUMENT_BYTES: Final = 16 << 20  # unless the job says otherwise
# A line or a record is longer than its text: escapes, and fields that nobody asked for.
_LONGEST_ROW: Final = 16
BATCH_ROWS: Final = 1024
BATCH_BYTES: Final = 8 << 20
_SAMPLE_BYTES: Final = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """What of a row is the text, and what the document id: a column, a feature, or a path such as `data.text`."""

    text: str
    id: str | None = None
    raw_records: bool = False  # the payload of a TFRecord record is the text itself
    # The longest text. What reads and tokenizes a document holds a few copies of it at a time.
    max_document_bytes: int = MAX_DOCUMENT_BYTES

    @property
    def max_row_bytes(self) -> int:
        """The longest line or record that is looked into; longer ones are never held."""
        if self.raw_records:
            return self.max_document_bytes
        return min(_LONGEST_ROW * max(self.max_document_bytes, MAX_DOCUMENT_BYTES), 2**31 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Consecutive rows of one file: a row group of Parquet, a range of records, of lines or of files."""

    file: int  # position in the list of sources
    row_group: int | None = None  # Parquet; Arrow: the record batch; JSON lines: the range of bytes
    first_row: int = 0  # within the row group or the file
    num_rows: int | None  # None: known once it was read
    text_bytes: int  # an estimate, for planning only
    byte_offset: int | None = (
        None  # record formats: where the first record begins; lines: where the range does
    )
    byte_end: int | None = None  # lines: where the range ends
    paths: tuple[tuple[str, int], ...] = ()  # a tree of files: relative paths and sizes
    damage: str | None = None  # found at planning time: what is wrong with all rows of this slice


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One input file as planned. `uri` may carry credentials and is never written; `name` never does and is."""

    uri: str = field(repr=False)
    name: str
    format: str  # "parquet", "tfrecord", "jsonl", "arrow", "files" or "unreadable"
    codec: str | None = None  # "gzip", "zlib" or "zstd" where the whole file is compressed
    size: int  # bytes
    fingerprint: str  # sha256 over what docs/formats/dataset.md says for each format
    num_rows: int | None  # None: known once it was read
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Consecutive rows as Arrow columns: no Python object a row.

    texts: LargeStringArray, all of it UTF-8; row `first_row + i` is `texts[i]`, null where `rejects[i]` says why not.
    ids: StringArray, or None if no id column was asked for.
    byte_offsets: int64 [rows], or None for Parquet.
    """

    first_row: int
    texts: Any
    ids: Any
    byte_offsets: NDArray[np.int64] | None
    rejects: dict[int, str]

    @classmethod
    def of(
        cls,
        *,
        first_row: int,
        texts: Sequence[bytes | None],
        ids: Sequence[str | None] | None,
        byte_offsets: Sequence[int] | None,
        rejects: dict[int, str],
    ) -> Batch:
        """From records that were taken apart one by one."""
        import pyarrow as pa

        return cls(
            first_row=first_row,
            texts=pa.array(texts, pa.large_binary()).view(pa.large_string()),
            ids=None if ids is None else pa.array(ids, pa.string()),
            byte_offsets=None if byte_offsets is None else np.array(byte_offsets, np.int64),
            rejects=rejects,
        )

    def first(self, count: int) -> Batch:
        """The batch without the rows behind its first `count`."""
        if count >= len(self.texts):
            return self
        return Batch(
            first_row=self.first_row,
            texts=self.texts[:count],
            ids=self.ids[:count] if self.ids is not None else None,
            byte_offsets=self.byte_offsets[:count] if self.byte_offsets is not None else None,
            rejects={position: reason for position, reason in self.rejects.items() if position < count},
        )


class SourceDamage(DamageError):
    """Bytes of a source are not the ones that were written: of the slice, only the first `intact_rows` are to be used.

    Those were all given before this is raised.
    """

    def __init__(self, message: str, intact_rows: int = 0) -> None:
        super().__init__(message)
        self.intact_rows = intact_rows


class Unreadable(InputError):
    """Nothing of a file can be read: it is not what it should be, or its beginning or its end is damaged."""


class Probe(Protocol):
    """A file after a look at its schema, before any row is read."""

    @property
    def columns(self) -> dict[str, str]:
        """Kind by name: "text", "binary", "integer", "null", or a type in words."""
        ...

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """Cuts the file into slices of about `slice_bytes` of text, where its format allows."""
        ...


def read_slice(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every row of a slice, in order, in bounded memory.

    Raises:
        SourceDamage: the bytes cannot be trusted; names the file and the rows.
        InputError: the file is gone or is another one than was planned.
    """
    # Each format's libraries are loaded where a file of it is read, and not before.
    if source.format == "parquet":
        from headrace.dataeng.sources import parquet

        return parquet.read(source, part, columns)
    if source.format == "arrow":
        from headrace.dataeng.sources import arrow

        return arrow.read(source, part, columns)
    if source.format == "files":
        from headrace.dataeng.sources import files

        return files.read(source, part, columns)
    if source.format == "unreadable":
        from headrace.dataeng.sources import unreadable

        return unreadable.read(source, part)
    if source.format == "jsonl":
        from headrace.dataeng.sources import jsonl

        return jsonl.read(source, part, columns)
    from headrace.dataeng.sources import tfrecord

    return tfrecord.read(source, part, columns)


def reject_reason(text: bytes, longest: int) -> str | None:
    """Why `text` is not a document of at most `longest` bytes, or None."""
    if (reason := size_reason(text, longest)) is not None:
        return reason
    return None if is_utf8(text) else NOT_UTF8


def size_reason(text: bytes, longest: int) -> str | None:
    """`reject_reason` of a text that is known to be UTF-8."""
    if not text:
        return EMPTY
    if text.isspace():
        return BLANK
    return TOO_LARGE if len(text) > longest else None


def is_utf8(data: bytes) -> bool:
    """Strictly: no surrogates, no overlong forms, nothing beyond U+10FFFF. NUL is a character like any other."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def sampled_fingerprint(kind: str, file: BinaryIO, size: int) -> str:
    """For formats without a footer or checksums: a hash of the size and of five blocks of 64 KiB, spread evenly.

    It tells apart files that are not made to deceive and not edited in place; reading all of a file only to name it
    would double what a job reads.
    """
    digest = hashlib.sha256(f"{kind}:{size}\n".encode())
    if size <= 5 * _SAMPLE_BYTES:
        starts, count = [0], size
    else:
        starts, count = [(size - _SAMPLE_BYTES) * number // 4 for number in range(5)], _SAMPLE_BYTES
    for start in starts:
        file.seek(start)
        digest.update(file.read(count))
    file.seek(0)
    return digest.hexdigest()


@lru_cache(maxsize=64)
def require_planned(source: SourceFile) -> None:
    """Raises InputError if the file is not the one that was planned; looks once a process. For sampled fingerprints."""
    with open_input(source.uri) as file:
        size = file.seek(0, 2)
        if size != source.size or sampled_fingerprint(source.format, file, size) != source.fingerprint:
            raise changed(source)


def changed(source: SourceFile) -> InputError:
    return InputError(
        f"{source.name}: not the file that was planned, it changed since; leave the inputs as they are and run the same "
        "command again"
    )
