"""MinHash signatures of texts: the library's, of runs of five normalised words, cut into bands of 64 bits.

rensa's R-MinHash estimates the Jaccard similarity of two sets without bias from the slots in which their signatures agree
(after Dahlgaard, Knudsen and Thorup, "Fast Similarity Sketching", 2017).
"""

from __future__ import annotations

import os
from importlib.metadata import version
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.lineage import string_buffers
from headrace.errors import MissingExtra, UsageError
from headrace.tokenize.dedup.config import SEED, SHINGLE_WORDS, SLOTS, Banding, DedupConfig

NO_WORDS: Final = np.uint64(2**64 - 1)  # every band of a text without words: it is like no other
_ALGORITHM: Final = 2


def library() -> Any:
    """`rensa.RMinHash`.

    Raises:
        MissingExtra: it is not installed.
        UsageError: its signatures are not those that headrace was made for.
    """
    os.environ.setdefault(
        "RAYON_NUM_THREADS", "1"
    )  # before it is loaded: a process is one of as many as there are cores
    try:
        from rensa import RMinHash
    except ImportError:
        raise MissingExtra("rensa", "dedup", "finding near duplicates") from None
    if RMinHash.ALGORITHM_VERSION != _ALGORITHM:
        raise UsageError(
            f"rensa's R-MinHash has version {RMinHash.ALGORITHM_VERSION} here, and headrace records version {_ALGORITHM}, "
            "which gives other signatures; run: pip install 'headrace[dedup]'"
        )
    return RMinHash


def bands_of(texts: Any, banding: Banding) -> NDArray[np.uint64]:
    """The bands of the signature of each text, uint64 [texts, bands]. texts: LargeStringArray without nulls."""
    from headrace.kernels.words import (  # numba: not where only a version is asked for
        shingle_hashes,
        word_hashes,
    )

    offsets, data = string_buffers(texts)
    words, word_offsets = word_hashes(np.frombuffer(data, np.uint8), offsets)
    shingles, shingle_offsets = shingle_hashes(words, word_offsets, SHINGLE_WORDS)
    matrix = library().digest_matrix_from_flat_token_hashes(
        shingles, shingle_offsets.astype(np.uint64), SLOTS, SEED
    )
    slots = np.fromiter(chain.from_iterable(matrix.to_rows()), np.uint32, len(texts) * SLOTS)
    low = slots.astype(f"<u{banding.bits // 8}")  # keeps the low bits
    return low.reshape(len(texts), SLOTS).view("<u8").astype(np.uint64, copy=False)


def num_equal(bands: NDArray[np.uint64], others: NDArray[np.uint64], banding: Banding) -> NDArray[np.int64]:
    """In how many slots two signatures agree, row by row: int64 [rows]."""
    slot = f"<u{banding.bits // 8}"
    equal = np.ascontiguousarray(bands).view(slot) == np.ascontiguousarray(others).view(slot)
    return np.asarray(np.count_nonzero(equal, axis=1))


def software(config: DedupConfig) -> dict[str, str]:
    """The library's version, if it is used: it may show in a published byte. Raises as `library`."""
    if config.banding is None:
        return {}
    library()
    return {"rensa": version("rensa")}
