"""NumPy's `.npy`, and raw integers as nanoGPT and llm.c write them. Nothing is ever unpickled.

llm.c begins its files with 256 int32: a magic number, a version, the number of tokens, zeros.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Final

import numpy as np

from headrace.convert.flat import Borders, Every, FlatFile, Run, require_whole
from headrace.convert.token_file import fingerprint, integer_dtype, open_sized
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.uris import redact
from headrace.errors import InputError, UsageError

NPY_MAGIC: Final = b"\x93NUMPY"
_LLMC: Final = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # by magic and version
_LLMC_HEADER: Final = 1024
_MAX_NPY_HEADER: Final = 10_000  # of text: NumPy's own limit for what is not trusted


def open_npy(uri: str, file: int, borders: Borders | None) -> FlatFile:
    """A matrix of documents of one length, or with `borders` a run. Raises InputError, UsageError."""
    where = redact(uri)
    opened, size = open_sized(uri)
    with opened:
        dtype, shape, begin = _npy_header(opened, where)
    if len(shape) not in (1, 2) or 0 in shape:
        raise InputError(f"{where}: an array of shape {shape}; expected one row or a matrix of token ids")
    if len(shape) == 2:
        if borders is not None:
            raise UsageError(
                f"{where}: a matrix, each row of which is a document; --split-after, --split-before and "
                "--document-tokens are for arrays of one axis"
            )
        borders = Every(shape[1])
    itemsize, count = np.dtype(dtype).itemsize, int(np.prod(shape, dtype=object))
    if size != begin + count * itemsize:
        raise InputError(
            f"{where}: {size:,} bytes, but its header says {begin + count * itemsize:,}; it is cut short or damaged"
        )
    run = Run(uri=uri, where=where, dtype=dtype, begin=begin, count=count)
    return _flat(run, "npy", file, size, _required(borders, where))


def open_raw(uri: str, file: int, borders: Borders | None, dtype: str | None) -> FlatFile:
    """Integers and nothing else, or behind llm.c's header. Raises InputError, UsageError."""
    where = redact(uri)
    opened, size = open_sized(uri)
    with opened:
        opened.seek(0)
        head = opened.read(_LLMC_HEADER)
    told, begin = _llmc(head)
    if told is None and dtype is None:
        raise UsageError(
            f"{where}: raw integers do not say of which type they are; give --dtype (nanoGPT writes uint16)"
        )
    found = told or np.dtype(dtype).newbyteorder("<").str
    if told and dtype is not None and np.dtype(dtype) != np.dtype(told):
        raise InputError(f"{where}: llm.c's header says {np.dtype(told).name}, and --dtype says {dtype}")
    count = require_whole(where, size, begin, np.dtype(found).itemsize)
    if told and count != (said := struct.unpack_from("<i", head, 8)[0]):
        raise InputError(
            f"{where}: {count:,} tokens, but its header says {said:,}; it is cut short or damaged"
        )
    run = Run(uri=uri, where=where, dtype=found, begin=begin, count=count)
    return _flat(run, "raw", file, size, _required(borders, where))


def _llmc(head: bytes) -> tuple[str | None, int]:
    if len(head) < _LLMC_HEADER:
        return None, 0
    found = _LLMC.get(struct.unpack_from("<ii", head))
    return found, _LLMC_HEADER if found else 0


def _required(borders: Borders | None, where: str) -> Borders:
    if borders is None:
        raise UsageError(
            f"{where}: one run of tokens, which does not say where documents end; give --split-after ID (nanoGPT), "
            "--split-before ID (llm.c), or --document-tokens N"
        )
    return borders


def _npy_header(file: BinaryIO, where: str) -> tuple[str, tuple[int, ...], int]:
    """Dtype with byte order, shape, and where the values begin."""
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        read: Any = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file, max_header_size=_MAX_NPY_HEADER)
    except Exception:  # noqa: BLE001 NumPy reads it with Python's own parser, which raises a dozen types
        raise InputError(f"{where}: not a .npy file that can be read (version 1 or 2)") from None
    if any(type(size) is not int or size < 0 for size in shape):
        raise InputError(f"{where}: an array of shape {str(shape)[:60]}")
    if fortran and len(shape) > 1:
        raise InputError(
            f"{where}: a matrix stored by columns, whose rows do not lie together; write it with numpy.ascontiguousarray"
        )
    integer_dtype(dtype.name, where)
    return dtype.str, shape, file.tell()


def _flat(run: Run, kind: str, file: int, size: int, borders: Borders) -> FlatFile:
    rows, slices = borders.plan(run, file)
    source = SourceFile(
        uri=run.uri,
        name=run.where,
        format=kind,
        size=size,
        fingerprint=fingerprint(kind, run.uri),
        num_rows=rows,
        slices=slices,
    )
    return FlatFile(source=source, run=run, borders=borders)
