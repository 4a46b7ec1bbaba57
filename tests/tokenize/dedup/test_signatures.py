from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import MissingExtra, UsageError
from headrace.tokenize.dedup import signatures
from headrace.tokenize.dedup.config import SLOTS, Banding, DedupConfig
from headrace.tokenize.dedup.signatures import NO_WORDS, bands_of, num_equal
from tests.tokenize.dedup.corpora import jaccard

NARROW, WIDE = Banding(slots=8, bits=8), Banding(slots=4, bits=16)


def texts(*values: str) -> Any:
    return pa.array(values, pa.large_string())


def test_signatures_are_the_same_on_every_machine_and_with_every_version() -> None:
    """If this fails after an upgrade of rensa, near duplicates are others: raise ALGORITHM_VERSION, and say so."""
    some = texts("a", "the mill wheel turns day and night " * 40, "水車は昼も夜も回る。" * 9)
    for banding, expected in ((NARROW, "762030bcd9708f2f"), (WIDE, "cc1066bca862fa85")):
        bands = bands_of(some, banding)
        assert bands.shape == (3, SLOTS // banding.slots)
        assert hashlib.sha256(bands.astype("<u8").tobytes()).hexdigest()[:16] == expected


@pytest.mark.parametrize("banding", [NARROW, WIDE])
def test_a_signature_does_not_depend_on_what_is_signed_with_it(banding: Banding) -> None:
    values = [f"text {number} of some words that are not the same " * 5 for number in range(50)]
    together = bands_of(texts(*values), banding)
    alone = np.concatenate([bands_of(texts(value), banding) for value in values])
    assert (together == alone).all()
    assert (bands_of(texts("#", *values, "#").slice(1, 50), banding) == alone).all()  # a view


@pytest.mark.parametrize("banding", [NARROW, WIDE])
@pytest.mark.parametrize("changed", [2, 5, 12])
def test_slots_agree_as_often_as_the_similarity_says(banding: Banding, changed: int) -> None:
    draw = np.random.default_rng(changed)
    deviations = []
    for number in range(60):
        words = [f"w{number}x{word}" for word in range(200)]
        others = list(words)
        for position in draw.choice(200, changed, replace=False):
            others[position] = f"changed{number}"
        one, other = " ".join(words), " ".join(others)
        bands = bands_of(texts(one, other), banding)
        expected = banding.least_equal(jaccard(one, other)) / SLOTS
        deviations.append(num_equal(bands[:1], bands[1:], banding)[0] / SLOTS - expected)
    assert abs(np.mean(deviations)) < 0.02  # 60 estimates, each with a deviation below 0.045
    assert np.std(deviations) < 0.06


def test_a_text_without_words_has_no_bands() -> None:
    assert (bands_of(texts("...", "word"), NARROW) == NO_WORDS).all(axis=1).tolist() == [True, False]


def test_bands_miss_few_at_the_threshold() -> None:
    near, nearer = DedupConfig(kind="near", threshold=0.5).banding, DedupConfig(kind="near").banding
    assert near == WIDE
    assert nearer == NARROW
    assert WIDE.chance(0.5) > 0.85
    assert NARROW.chance(0.8) > 0.94
    assert NARROW.chance(0.9) > 0.999
    assert NARROW.chance(0.3) < 0.01


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rensa", None)
    assert signatures.software(DedupConfig(kind="exact")) == {}
    with pytest.raises(MissingExtra, match=r"pip install 'headrace\[dedup\]'"):
        signatures.software(DedupConfig(kind="near"))


def test_a_library_with_other_signatures_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        class RMinHash:
            ALGORITHM_VERSION = 3

    monkeypatch.setitem(sys.modules, "rensa", Other)  # stands for a later release
    with pytest.raises(UsageError, match="version 3 here"):
        signatures.library()


@pytest.mark.parametrize("threshold", [0.49, 1.01, -1.0])
def test_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match=r"from 0\.5 to 1"):
        DedupConfig(kind="near", threshold=threshold)
