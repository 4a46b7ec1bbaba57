"""What every source is: a file, its fingerprint, and the slices in which it is read.

    discover ──> Probe (schema) ──> SourceFile (slices) ──> read_slice ──> Batch, Batch, ...

A *row* is the position of a document: within its row group for Parquet, within its file for record formats. Rows of
a slice are read in order and each is either a text or a reject; nothing else can happen to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DamageError

# Why a row is not a document. Each is counted in the manifest and listed in the rejects files.
NULL: Final = "null"  # the text is null
EMPTY: Final = "empty"  # the text has no bytes
BLANK: Final = "blank"  # the text is ASCII white space only
NOT_UTF8: Final = "not_utf8"  # the bytes of the text, or of the id, are not UTF-8
NO_TEXT: Final = "no_text"  # a record without the text feature
NOT_TEXT: Final = "not_text"  # a record whose text feature is not one byte string
NOT_EXAMPLE: Final = "not_example"  # a record that is not a tf.train.Example
NO_TOKENS: Final = "no_tokens"  # the tokenizer makes nothing of the text
NOT_TOKENIZABLE: Final = "not_tokenizable"  # the tokenizer gives up on the text
TOO_LARGE: Final = "too_large"  # the text is over --max-document-bytes, or the document does not fit the largest possible shard
DAMAGED: Final = "damaged"  # the bytes are not the ones that were written


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """Which column (or feature) is the text, and which the document id."""

    text: str
    id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Consecutive rows of one file: a row group of Parquet, or a range of records."""

    file: int  # position in the list of sources
    row_group: int | None = None  # Parquet
    first_row: int = 0  # within the row group or the file
    num_rows: int
    text_bytes: int  # an estimate, for planning only
    byte_offset: int | None = None  # record formats: where the first record begins
    damage: str | None = None  # found at planning time: what is wrong with all rows of this slice


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One input file as planned. `uri` may carry credentials and is never written; `name` never does and is."""

    uri: str = field(repr=False)
    name: str
    format: str  # "parquet" or "tfrecord"
    size: int  # bytes
    fingerprint: str  # sha256: over the footer of Parquet, over all lengths and CRCs of TFRecord
    num_rows: int
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


class SourceDamage(DamageError):
    """Bytes of a source are not the ones that were written: no row of the slice is to be used."""


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
    if source.format == "parquet":
        from headrace.dataeng.sources import parquet

        return parquet.read(source, part, columns)
    from headrace.dataeng.sources import tfrecord

    return tfrecord.read(source, part, columns)


def reject_reason(text: bytes) -> str | None:
    """Why `text` is not a document, or None."""
    if not text:
        return EMPTY
    if text.isspace():
        return BLANK
    return None if is_utf8(text) else NOT_UTF8


def is_utf8(data: bytes) -> bool:
    """Strictly: no surrogates, no overlong forms, nothing beyond U+10FFFF. NUL is a character like any other."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
