"""One MDS shard of others: fetched, checked, unpacked, and the column of tokens taken out of it by a kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.convert.token_file import BATCH_TOKENS, Documents, open_sized, require_planned
from headrace.convert.unpacking import unpack
from headrace.dataeng.mds import Lengths
from headrace.dataeng.sources.base import Slice, SourceFile
from headrace.errors import DamageError, InputError

# Hashes that mosaicml-streaming may have written and the standard library can compute.
KNOWN_HASHES: Final = (
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "md5",
    "blake2b",
    "blake2s",
    "sha3_256",
)
# How an array without a type in its column's name says of which it is.
_DTYPES: Final = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    32: "uint32",
    33: "int32",
    64: "uint64",
    65: "int64",
}
_FAULTS: Final = {
    1: "the table of offsets does not ascend within the file",
    2: "its columns do not fill its bytes",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoding:
    """dtype: None if each value says it. header: whether each value says how long it is."""

    dtype: str | None
    header: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MosaicShard:
    """A `TokenFile`. hashes: (kind, hexadecimal) of the stored file. sizes: of each column in bytes, 0 if they differ."""

    source: SourceFile
    raw_bytes: int
    hashes: tuple[tuple[str, str], ...]
    encoding: Encoding
    column: int
    sizes: tuple[int, ...]

    def read(self, part: Slice) -> Iterator[Documents]:
        assert part.num_rows is not None
        file = self._raw()
        begins, ends = self._values(file, part.num_rows)
        begins, dtypes = self._array_heads(file, begins, ends)
        # Runs of one type: a writer may give each array its own.
        borders = [0, *(np.flatnonzero(np.diff(dtypes)) + 1).tolist(), len(dtypes)]
        for first, last in pairwise(borders):
            dtype = self.encoding.dtype or _DTYPES[int(dtypes[first])]
            yield from self._batches(file, begins[first:last], ends[first:last], first, dtype)

    def _raw(self) -> NDArray[np.uint8]:
        source = self.source
        file, size = open_sized(source.uri)
        with file:
            if size != source.size:
                raise self._damage(f"{size:,} bytes, its index says {source.size:,}")
            if not self.hashes:
                require_planned(source.name, source.fingerprint, source.format, source.uri)
            file.seek(0)
            data = file.read()
        for kind, told in self.hashes:
            if (found := hashlib.new(kind, data, usedforsecurity=False).hexdigest()) != told.lower():
                raise self._damage(f"its {kind} is {found[:16]}..., its index says {told[:16]}...")
        if source.codec is not None:
            data = unpack(data, source.codec, self.raw_bytes, source.name)
        if len(data) != self.raw_bytes:
            raise self._damage(f"{len(data):,} bytes unpacked, its index says {self.raw_bytes:,}")
        return np.frombuffer(data, np.uint8)

    def _values(self, file: NDArray[np.uint8], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """From where to where in the file each value of the column lies."""
        from headrace.kernels.columns import FINE, locate_column

        if (found := int(file[:4].view("<u4")[0])) != count:
            raise self._damage(f"{found:,} samples, its index says {count:,}")
        begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        fault, sample = locate_column(file, np.array(self.sizes, np.int64), self.column, begins, ends)
        if fault != FINE:
            raise self._damage(f"sample {sample:,}: {_FAULTS[fault]}")
        return begins, ends

    def _array_heads(
        self, file: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Where the ids begin behind what each array says of itself, and each one's code of a type."""
        codes = np.zeros(len(begins), np.uint8)
        said = np.full(len(begins), -1, np.int64)
        if self.encoding.dtype is None:
            self._require(ends > begins, "an array without a type")
            codes = file[begins]
            self._require(np.isin(codes, list(_DTYPES)), "an array that is not of integers")
            begins = begins + 1
        if self.encoding.header:
            self._require(ends > begins, "an array without a length")
            axis = file[begins]
            self._require((axis >> 2) == 1, "an array that has not one axis")
            width = np.left_shift(1, axis & 3).astype(np.int64)
            self._require(begins + 1 + width <= ends, "an array without a length")
            said = np.zeros(len(begins), np.int64)
            for byte in range(8):
                has = width > byte
                said[has] |= file[begins[has] + 1 + byte].astype(np.int64) << 8 * byte
            begins = begins + 1 + width
        sizes = np.array([np.dtype(d).itemsize for d in _DTYPES.values()], np.int64)
        if self.encoding.dtype is None:
            itemsize = sizes[np.searchsorted(list(_DTYPES), codes)]
        else:
            itemsize = np.full(len(begins), np.dtype(self.encoding.dtype).itemsize, np.int64)
        lengths = (ends - begins) // itemsize
        self._require((ends - begins) % itemsize == 0, "not a whole number of ids; is --dtype right?")
        self._require((said == lengths) | (said == -1), "an array of another length than it says")
        return begins, codes

    def _batches(
        self,
        file: NDArray[np.uint8],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
        first_row: int,
        dtype: str,
    ) -> Iterator[Documents]:
        from headrace.kernels.columns import copy_ranges

        lengths: Lengths = (ends - begins) // np.dtype(dtype).itemsize
        totals = np.cumsum(lengths)
        begin = 0
        while begin < len(lengths):
            before = int(totals[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(totals, before + BATCH_TOKENS, side="right")))
            some = slice(begin, end)
            values = np.empty(int((ends[some] - begins[some]).sum()), np.uint8)
            copy_ranges(file, begins[some], ends[some], values)
            tokens: Any = values.view(np.dtype(dtype).newbyteorder("<"))
            yield Documents(
                first_row=first_row + begin, tokens=tokens, lengths=lengths[some], byte_offsets=None
            )
            begin = end

    def _require(self, fine: NDArray[np.bool_], problem: str) -> None:
        if not fine.all():
            raise InputError(
                f"{self.source.name}: sample {int(np.argmin(fine)):,}: {problem}; the shard is refused"
            )

    def _damage(self, problem: str) -> DamageError:
        return DamageError(
            f"{self.source.name}: {problem}; the shard is not the one that was written. Restore it and run the same "
            "command again"
        )
