"""From a tokenizer's flat ids to framed documents, and from those to MDS samples (docs/formats/mds.md), in one pass each.

Documents are copied from view to view: indices that count from a view's own start need no test for being negative, so
the loop becomes a block move, ten times as fast.

Legend: D documents; ids and tokens lie one document after another; offsets[d] to offsets[d + 1] are document d's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit


@njit
def frame_documents(
    ids: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    bos: int,
    eos: int,
    tokens: NDArray[np.uint32],
    lengths_D: NDArray[np.int64],
) -> int:
    """Copies ids to `tokens` (uint16 or uint32) with `bos` before and `eos` behind each document; -1 stands for none.

    A document without ids gets no frame and the length 0. Returns the number of tokens written.
    """
    at = 0
    for d in range(len(lengths_D)):
        begin, end = offsets[d], offsets[d + 1]
        first = at
        if end > begin:
            if bos >= 0:
                tokens[at] = bos
                at += 1
            source, target = ids[begin:end], tokens[at : at + end - begin]
            for i in range(len(source)):
                target[i] = source[i]
            at += end - begin
            if eos >= 0:
                tokens[at] = eos
                at += 1
        lengths_D[d] = at - first
    return at


@njit
def write_samples(
    tokens: NDArray[np.uint8], itemsize: int, lengths_D: NDArray[np.int64], file: NDArray[np.uint8], at: int
) -> int:
    """Writes each document (its little-endian `tokens` as bytes) with its head into `file` from byte `at` on.

    Returns the byte behind the last sample.
    """
    taken = 0
    for d in range(len(lengths_D)):
        length = lengths_D[d]
        code = 0 if length < 256 else (1 if length < 65536 else 2)
        width = 1 << code
        num_bytes = length * itemsize
        size = 1 + width + num_bytes
        for i in range(4):
            file[at + i] = size >> (8 * i) & 255
        file[at + 4] = 4 | code
        for i in range(width):
            file[at + 5 + i] = length >> (8 * i) & 255
        at += 5 + width
        source, target = tokens[taken : taken + num_bytes], file[at : at + num_bytes]
        for i in range(num_bytes):
            target[i] = source[i]
        at += num_bytes
        taken += num_bytes
    return at


def frame_documents_reference(
    documents: list[list[int]], bos: int | None, eos: int | None
) -> list[list[int]]:
    """The definition of `frame_documents`, on lists."""
    before = [] if bos is None else [bos]
    after = [] if eos is None else [eos]
    return [before + ids + after if ids else [] for ids in documents]


def write_samples_reference(documents: list[list[int]], itemsize: int) -> bytes:
    """The definition of `write_samples`, on lists."""
    samples = b""
    for tokens in documents:
        code = next(code for code in range(3) if code == 2 or len(tokens) < 256 ** (1 << code))
        body = bytes([4 | code]) + len(tokens).to_bytes(1 << code, "little")
        body += b"".join(token.to_bytes(itemsize, "little") for token in tokens)
        samples += len(body).to_bytes(4, "little") + body
    return samples
