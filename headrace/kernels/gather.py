"""From a raw MDS shard to training rows (docs/formats/mds.md): no Python object per document or token.

Legend: D documents of the shard, T sequence length. A shard's documents are one stream of tokens; a row is T + 1
consecutive tokens of it, the last of them only a label.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.jit import njit
from headrace.kernels.mix import mix64, mix64_reference

IGNORE = -100
_HEAD = 5  # datum size (uint32) and the byte that names the width of the length
_SAMPLE_KEY = np.uint64(0x53414D504C45)  # "SAMPLE"
_31, _32, _63 = np.uint64(31), np.uint64(32), np.uint64(63)


@njit
def _u32(file: NDArray[np.uint8], at: int) -> int:
    return int(file[at] | file[at + 1] << 8 | file[at + 2] << 16 | np.int64(file[at + 3]) << 24)


@njit
def document_ends(file: NDArray[np.uint8], itemsize: int, ends_D: NDArray[np.uint32]) -> int:
    """Running token counts: ends_D[d] = tokens of documents 0..d.

    Returns the first document whose header cannot be (bounds, size, axis), or -1 if the shard holds together.
    """
    num_documents = len(ends_D)
    if len(file) < 8 + 4 * num_documents or _u32(file, 0) != num_documents:
        return 0
    total = 0
    start = _u32(file, 4)
    if start < 8 + 4 * num_documents:
        return 0
    for d in range(num_documents):
        end = _u32(file, 8 + 4 * d)
        if start + _HEAD >= end or end > len(file) or _u32(file, start) != end - start - 4:
            return d
        code = file[start + 4]
        if not 4 <= code <= 6:
            return d
        body = end - start - _HEAD - (1 << (code - 4))
        if body <= 0 or body % itemsize:
            return d
        total += body // itemsize
        ends_D[d] = total
        start = end
    return -1 if start == len(file) else num_documents - 1


@njit
def gather_row(
    file: NDArray[np.uint8],
    itemsize: int,
    ends_D: NDArray[np.uint32],
    first_token: int,
    sample_id: int,
    mask_document_labels: bool,
    inputs_T: NDArray[np.int64],
    labels_T: NDArray[np.int64],
    positions_T: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Fills one row from token `first_token` of the shard's stream on.

    Returns (documents that begin or continue in the row's inputs, largest token id, digest of the row).
    """
    length = len(inputs_T)
    sample_key = mix64(np.uint64(sample_id) + _SAMPLE_KEY)
    document = int(np.searchsorted(ends_D, np.uint32(first_token), side="right"))
    begin = int(ends_D[document - 1]) if document > 0 else 0
    index, pieces, largest = 0, 0, 0
    digest = np.uint64(0)
    while index <= length:
        end = int(ends_D[document])
        take = min(end - (first_token + index), length + 1 - index)
        start = _u32(file, 4 + 4 * document)
        at = start + _HEAD + (1 << (file[start + 4] - 4)) + (first_token + index - begin) * itemsize
        new = np.uint64(1 if first_token + index == begin else 0)
        if index < length:
            pieces += 1
        for i in range(take):
            if itemsize == 2:
                token = int(file[at + 2 * i] | np.int64(file[at + 2 * i + 1]) << 8)
            else:
                token = _u32(file, at + 4 * i)
            j = index + i
            flag = new if i == 0 else np.uint64(0)
            digest += mix64(sample_key ^ (flag << _63 | np.uint64(j) << _32 | np.uint64(token)))
            largest = max(largest, token)
            if j < length:
                inputs_T[j] = token
                positions_T[j] = i
            if j > 0:
                labels_T[j - 1] = token
        if mask_document_labels and index > 0:
            labels_T[index - 1] = IGNORE
        index += take
        begin = end
        document += 1
    return pieces, largest, digest  # type: ignore[return-value]


@njit
def boundaries(positions_BT: NDArray[np.int64], out: NDArray[np.int32]) -> None:
    """cu_seqlens of the flattened rows: where a position is 0, then the total."""
    count = 0
    flat = positions_BT.ravel()
    for i in range(len(flat)):
        if flat[i] == 0:
            out[count] = i
            count += 1
    out[count] = len(flat)


def row_reference(
    documents: list[list[int]], first_token: int, length: int, sample_id: int, mask_document_labels: bool
) -> tuple[list[int], list[int], list[int], int]:
    """(inputs, labels, positions, digest) from documents as lists: the definition."""
    stream = [(token, i == 0) for document in documents for i, token in enumerate(document)]
    window = stream[first_token : first_token + length + 1]
    inputs = [token for token, _ in window[:-1]]
    labels = [IGNORE if new and mask_document_labels else token for token, new in window[1:]]
    positions: list[int] = []
    for index, (_, new) in enumerate(window[:-1]):
        positions.append(0 if new or index == 0 else positions[-1] + 1)
    key = mix64_reference((sample_id + 0x53414D504C45) % (1 << 64))
    digest = sum(
        mix64_reference(key ^ (int(new) << 63 | j << 32 | token)) for j, (token, new) in enumerate(window)
    )
    return inputs, labels, positions, digest % (1 << 64)
