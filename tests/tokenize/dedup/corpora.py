"""Scanned corpora made without files of text, and what is a duplicate in them by the plainest means."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.dataeng.lineage import text_hashes
from headrace.dataeng.storage import Store
from headrace.kernels.words import shingles_reference, words_reference
from headrace.tokenize.dedup.config import SHINGLE_WORDS, DedupConfig
from headrace.tokenize.dedup.drops import read_drops
from headrace.tokenize.dedup.journal import Decision, ScanRecord
from headrace.tokenize.dedup.keys import DocumentsDigest, KeysWriter
from headrace.tokenize.dedup.signatures import bands_of

Place = tuple[int, int, int]  # unit, part, row


def name_of(unit: int, part: int) -> tuple[str, int]:
    """Each unit is a file, each slice a row group."""
    return str(unit), part


def scan(store: Store, units: Sequence[Sequence[Sequence[str]]], config: DedupConfig) -> list[ScanRecord]:
    """Stores the keys of texts, given by unit and slice; row 3 of a slice is its first."""
    scans = []
    for unit, parts in enumerate(units):
        banding, digest = config.banding, DocumentsDigest()
        writer = KeysWriter(store, unit, 0 if banding is None else banding.bands)
        for part, texts in enumerate(parts):
            if not texts:
                continue
            column = pa.array(texts, pa.large_string())
            rows, hashes = np.arange(3, 3 + len(texts)), text_hashes(column)
            digest.add(part, rows, hashes)
            writer.add(part, rows, hashes, None if banding is None else bands_of(column, banding))
        scans.append(
            ScanRecord(unit=unit, keys=writer.finish(), digest=digest.hexdigest(), counts={}, rejects={})
        )
    return scans


def dropped(store: Store, decision: Decision) -> dict[Place, tuple[bool, Place]]:
    """By place: whether it is nearly that other one, and which."""
    found: dict[Place, tuple[bool, Place]] = {}
    for unit, drops in decision.drops.items():
        rows: list[dict[str, Any]] = read_drops(store, drops).to_pylist()
        assert drops.near_duplicates == sum(row["near"] for row in rows)
        assert drops.duplicates == sum(not row["near"] for row in rows)
        places = [(unit, row["part"], row["row"]) for row in rows]
        assert places == sorted(places)
        found |= {
            place: (
                row["near"],
                (int(row["original_source"]), row["original_row_group"], row["original_row"]),
            )
            for place, row in zip(places, rows, strict=True)
        }
    return found


def in_order(units: Sequence[Sequence[Sequence[str]]]) -> list[tuple[Place, str]]:
    return [
        ((unit, part, row), text)
        for unit, parts in enumerate(units)
        for part, texts in enumerate(parts)
        for row, text in enumerate(texts, 3)
    ]


def same_texts(units: Sequence[Sequence[Sequence[str]]]) -> dict[Place, tuple[bool, Place]]:
    """The definition of an exact duplicate, with a dictionary."""
    first: dict[str, Place] = {}
    found = {}
    for place, text in in_order(units):
        if first.setdefault(text, place) != place:
            found[place] = (False, first[text])
    return found


@cache
def shingles(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(shingles_reference(words_reference(text), SHINGLE_WORDS))


def jaccard(one: str, other: str) -> float:
    """Of the sets of runs of words."""
    a, b = shingles(one), shingles(other)
    both = len(a & b)
    return both / (len(a) + len(b) - both) if a or b else 0.0
