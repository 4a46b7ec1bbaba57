"""The first document with the same key, over more keys than memory holds.

Records go to partitions by the first bits of their key. A partition is sorted block by block, and of the blocks before only
one record a key is kept: keys spread evenly, however often each is repeated, so a partition of a corpus that says the same
thing a billion times needs no more memory than another.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.tokenize.dedup.scratch import Partitions


def partition_of(keys: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """uint64 [keys]: by the first 8 bits of each."""
    return (keys >> np.uint64(56)) * np.uint64(count) >> np.uint64(8)


def first_documents(keys: NDArray[np.uint64], documents: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For each record the smallest of the documents with the same key: uint64 [records].

    keys: uint64 [records, words].
    """
    order = np.argsort(keys[:, 0])
    changes = np.any(np.diff(keys[order], axis=0) != 0, axis=1)
    if keys.shape[1] > 1:
        same_word = np.diff(keys[order, 0]) == 0
        if np.any(changes & same_word):  # two keys that begin alike: one in 2^64, or made to
            order = np.lexsort(keys.T[::-1])
            changes = np.any(np.diff(keys[order], axis=0) != 0, axis=1)
    begins = np.flatnonzero(np.concatenate([[True], changes])) if len(order) else np.empty(0, np.int64)
    firsts = np.empty(len(order), np.uint64)
    if len(order):
        smallest = np.minimum.reduceat(documents[order], begins)
        firsts[order] = np.repeat(smallest, np.diff(np.append(begins, len(order))))
    return firsts


def repeats(partitions: Partitions, number: int) -> Iterator[NDArray[np.uint64]]:
    """Of one partition of records (key words, document): uint64 [pairs, 2] of each document whose key an earlier one has,
    and the first to have it. Documents come in ascending order.
    """
    known: NDArray[np.uint64] | None = None
    for block in partitions.read(number):
        records = block if known is None else np.concatenate([known, block])
        documents = records[:, -1]
        firsts = first_documents(records[:, :-1], documents)
        repeated = firsts != documents
        yield np.stack([documents[repeated], firsts[repeated]], axis=1)
        known = records[~repeated]
