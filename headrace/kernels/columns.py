"""Find one column in the samples of an MDS shard with any columns, and take its values out.

    sample = size u32 of each column without a fixed one | values, column after column

Legend: D samples, C columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit

FINE, OFFSETS, SIZES = range(3)  # what `locate_column` finds


@njit
def _u32(file: NDArray[np.uint8], at: int) -> int:
    return int(file[at] | file[at + 1] << 8 | file[at + 2] << 16 | np.int64(file[at + 3]) << 24)


@njit
def locate_column(
    file: NDArray[np.uint8],
    sizes_C: NDArray[np.int64],
    column: int,
    begins_D: NDArray[np.int64],
    ends_D: NDArray[np.int64],
) -> tuple[int, int]:
    """Fills in from where to where in the file the value of `column` lies in each sample.

    sizes_C: fixed sizes in bytes, 0 for none. The file has room for its table of D + 1 offsets. Returns (FINE or what is
    wrong, at which sample).
    """
    num_documents = len(begins_D)
    head = 0
    for c in range(len(sizes_C)):
        if sizes_C[c] == 0:
            head += 4
    start = _u32(file, 4)
    if start < 8 + 4 * num_documents:
        return OFFSETS, 0
    for d in range(num_documents):
        end = _u32(file, 8 + 4 * d)
        if start > end or end > len(file):
            return OFFSETS, d
        if end - start < head:
            return SIZES, d
        at, told = start + head, start
        for c in range(len(sizes_C)):
            size = sizes_C[c]
            if size == 0:
                size = _u32(file, told)
                told += 4
            if size > end - at:
                return SIZES, d
            if c == column:
                begins_D[d], ends_D[d] = at, at + size
            at += size
        if at != end:
            return SIZES, d
        start = end
    return FINE, num_documents - 1


def locate_column_reference(
    file: bytes, sizes: list[int], column: int, count: int
) -> list[tuple[int, int]] | None:
    """The definition, for files whose table of offsets is there; None if anything is wrong."""

    def number(at: int) -> int:
        return int.from_bytes(file[at : at + 4], "little")

    offsets = [number(4 + 4 * d) for d in range(count + 1)]
    if offsets[0] < 8 + 4 * count:
        return None
    found = []
    for d in range(count):
        start, end = offsets[d], offsets[d + 1]
        if not start <= end <= len(file):
            return None
        variable = [c for c, size in enumerate(sizes) if size == 0]
        if end - start < 4 * len(variable):
            return None
        told = {c: number(start + 4 * i) for i, c in enumerate(variable)}
        lengths = [told.get(c, size) for c, size in enumerate(sizes)]
        first = start + 4 * len(variable)
        if first + sum(lengths) != end:
            return None
        begin = first + sum(lengths[:column])
        found.append((begin, begin + lengths[column]))
    return found


@njit
def copy_ranges(
    file: NDArray[np.uint8], begins_D: NDArray[np.int64], ends_D: NDArray[np.int64], out: NDArray[np.uint8]
) -> None:
    """The bytes of all ranges one after another; `out` has exactly their size."""
    at = 0
    for d in range(len(begins_D)):
        size = ends_D[d] - begins_D[d]
        out[at : at + size] = file[begins_D[d] : ends_D[d]]
        at += size


def copy_ranges_reference(file: bytes, begins: list[int], ends: list[int]) -> bytes:
    """The definition."""
    return b"".join(file[begin:end] for begin, end in zip(begins, ends, strict=True))
