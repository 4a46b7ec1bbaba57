"""Hold the samples of an MDS shard (docs/formats/mds.md) to their format, and find the largest token.

Legend: D documents.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit

FINE, OFFSETS, SIZE, AXIS, WHOLE, COUNT = range(6)  # what `check_samples` finds
_HEAD = 5  # datum size (uint32) and the byte that names the width of the length


@njit
def _u32(file: NDArray[np.uint8], at: int) -> int:
    return int(file[at] | file[at + 1] << 8 | file[at + 2] << 16 | np.int64(file[at + 3]) << 24)


@njit
def _largest(tokens: NDArray[np.uint8], itemsize: int) -> int:
    """Byte by byte, since samples are not aligned; what is compiled takes a token at a time."""
    largest = 0
    if itemsize == 2:
        for i in range(len(tokens) // 2):
            largest = max(largest, int(tokens[2 * i] | np.int64(tokens[2 * i + 1]) << 8))
    else:
        for i in range(len(tokens) // 4):
            largest = max(largest, _u32(tokens, 4 * i))
    return largest


@njit
def check_samples(
    file: NDArray[np.uint8], itemsize: int, begin: int, lengths_D: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Walks the samples, of which the first begins at byte `begin`, and fills in how many tokens each has.

    The file has room for its table of D + 1 offsets. Returns (FINE or what is wrong, at which document, the largest
    token seen).
    """
    largest = 0
    start = _u32(file, 4)
    if start != begin:
        return OFFSETS, 0, largest
    for d in range(len(lengths_D)):
        end = _u32(file, 8 + 4 * d)
        if start + _HEAD >= end or end > len(file):
            return OFFSETS, d, largest
        if _u32(file, start) != end - start - 4:
            return SIZE, d, largest
        code = file[start + 4]
        if not 4 <= code <= 6:
            return AXIS, d, largest
        width = 1 << (code - 4)
        body = end - start - _HEAD - width
        if body <= 0 or body % itemsize:
            return WHOLE, d, largest
        length = body // itemsize
        said = np.int64(0)
        for i in range(width):
            said |= np.int64(file[start + _HEAD + i]) << 8 * i
        smallest = 0 if code == 4 else (1 << 8 if code == 5 else 1 << 16)
        if said != length or length < smallest:
            return COUNT, d, largest
        lengths_D[d] = length
        largest = max(largest, _largest(file[end - body : end], itemsize))
        start = end
    return (FINE if start == len(file) else OFFSETS), len(lengths_D) - 1, largest


def check_samples_reference(file: bytes, itemsize: int) -> tuple[list[int], int] | None:
    """The definition, for files whose table of offsets is there: (lengths, the largest token), or None if anything is wrong."""

    def number(at: int, width: int) -> int:
        return int.from_bytes(file[at : at + width], "little")

    count = number(0, 4)
    offsets = [number(4 + 4 * d, 4) for d in range(count + 1)]
    lengths, largest = [], 0
    for start, end in pairwise(offsets):
        sample = file[start:end]
        if (
            not 5 < len(sample) == end - start
            or number(start, 4) != len(sample) - 4
            or sample[4] not in (4, 5, 6)
        ):
            return None
        width = 1 << (sample[4] - 4)
        said, body = int.from_bytes(sample[5 : 5 + width], "little"), sample[5 + width :]
        narrowest = 1 if said < 1 << 8 else 2 if said < 1 << 16 else 4
        if said == 0 or said * itemsize != len(body) or width != narrowest:
            return None
        lengths.append(said)
        tokens = [int.from_bytes(body[i : i + itemsize], "little") for i in range(0, len(body), itemsize)]
        largest = max(largest, *tokens)
    return (lengths, largest) if offsets[-1] == len(file) else None
