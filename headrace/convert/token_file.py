"""What a file of tokens is, whoever wrote it: where its documents lie, and how they are read a slice at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.mds import Lengths
from headrace.dataeng.sources.base import Slice, SourceFile, sampled_fingerprint
from headrace.dataeng.sources.location import open_input
from headrace.errors import DamageError, InputError

AnyTokens: TypeAlias = NDArray[np.integer[Any]]

SLICE_TOKENS: Final = 1 << 20  # about the smallest unit; read by one process, and resumed as a whole
BATCH_TOKENS: Final = 1 << 20
# A longer document is rejected: what reads and packs one holds a few copies of it.
MAX_DOCUMENT_TOKENS: Final = 64 << 20
# Text behind a token, for planning: units and progress are measured in text.
TEXT_BYTES_A_TOKEN: Final = 4
INTEGERS: Final = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


@dataclass(frozen=True, kw_only=True, slots=True)
class Documents:
    """Consecutive documents of a slice, ids as they were found.

    tokens: any integer dtype [sum of lengths]; lengths: int64 [documents], 0 for an empty one. byte_offsets: int64
    [documents], where the tokens of each begin in the file; None for MDS. reason: all of them are rejected for it, and
    their tokens were not read.
    """

    first_row: int
    tokens: AnyTokens
    lengths: Lengths
    byte_offsets: NDArray[np.int64] | None
    reason: str | None = None


class TokenFile(Protocol):
    """One file, planned. A value: it travels to other processes."""

    @property
    def source(self) -> SourceFile:
        """The file with its slices; `num_rows` is None if documents are known only once they are read."""
        ...

    def read(self, part: Slice) -> Iterator[Documents]:
        """Every document of a slice, in order, in bounded memory.

        Raises:
            DamageError: the bytes are not those of the file that was planned.
            InputError: the file cannot be read or does not hold documents of tokens.
        """
        ...


def integer_dtype(name: str, where: str) -> str:
    """`name` if it is an integer type that ids can have. Raises InputError."""
    if name not in INTEGERS:
        raise InputError(
            f"{where}: its values are {name[:40]!r}; token ids are integers ({', '.join(INTEGERS)}), so the file is refused"
        )
    return name


def read_at(file: BinaryIO, offset: int, count: int, dtype: str, where: str) -> AnyTokens:
    """`count` values at byte `offset`. Raises DamageError if the file ends before."""
    size = count * np.dtype(dtype).itemsize
    file.seek(offset)
    blocks, missing = [], size
    while missing and (block := file.read(missing)):
        blocks.append(block)
        missing -= len(block)
    if missing:
        raise DamageError(
            f"{where}: it ends at byte {offset + size - missing:,}, and {missing:,} more were to be read; it is cut short or "
            "was changed meanwhile. Restore it and run the same command again"
        )
    found: AnyTokens = np.frombuffer(b"".join(blocks) if len(blocks) != 1 else blocks[0], dtype)
    return found


def open_sized(uri: str) -> tuple[BinaryIO, int]:
    """The file and its size in bytes; close it."""
    file = open_input(uri)
    return file, file.seek(0, 2)


def fingerprint(kind: str, *uris: str) -> str:
    """Of the files that belong together as one source: each by its size and five blocks of 64 KiB.

    docs/formats/dataset.md says each byte.
    """
    digests = []
    for uri in uris:
        file, size = open_sized(uri)
        with file:
            digests.append(sampled_fingerprint(kind, file, size))
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


@lru_cache(maxsize=64)
def require_planned(name: str, expected: str, kind: str, *uris: str) -> None:
    """Raises InputError if the files are not the ones that were planned; looks once a process."""
    if fingerprint(kind, *uris) != expected:
        raise InputError(
            f"{name}: not the file that was planned, it changed since; leave the inputs as they are and run the same "
            "command again"
        )
