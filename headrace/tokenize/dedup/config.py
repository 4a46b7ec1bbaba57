"""What is asked for, and what follows from it. All of it enters the job's identity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import UsageError

DUPLICATE: Final = "duplicate"  # an earlier document has the same text
NEAR_DUPLICATE: Final = "near_duplicate"  # an earlier document has nearly the same text

SLOTS: Final = 128  # of a signature
SHINGLE_WORDS: Final = 5
SEED: Final = 1
# Below it, bands are of fewer slots.
_WIDE_BANDS_FROM: Final = 0.7


@dataclass(frozen=True, kw_only=True, slots=True)
class Banding:
    """How a signature is cut: `bands` keys of 64 bits, each of `slots` slots of `bits` bits.

    Two documents whose shingles have the Jaccard similarity J agree in a slot with the probability p = J + (1 - J) / 2**bits
    (b-bit MinHash: Li and König 2010), and share a band with the probability 1 - (1 - p**slots)**bands.
    """

    slots: int
    bits: int

    @property
    def bands(self) -> int:
        return SLOTS // self.slots

    def chance(self, similarity: float) -> float:
        """That two documents of this Jaccard similarity share a band."""
        return 1 - math.pow(1 - math.pow(self._agreement(similarity), self.slots), self.bands)

    def least_equal(self, similarity: float) -> int:
        """How many slots have to agree for an estimate of at least `similarity`."""
        return math.ceil(SLOTS * self._agreement(similarity) - 1e-9)

    def _agreement(self, similarity: float) -> float:
        return similarity + (1 - similarity) / (1 << self.bits)


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupConfig:
    """kind: "none", "exact" (the same bytes of text) or "near" (that, and nearly the same words).

    threshold: the least Jaccard similarity of two near duplicates, of the sets of their runs of 5 words.
    """

    kind: str = "none"
    threshold: float = 0.8

    def __post_init__(self) -> None:
        if self.kind not in ("none", "exact", "near"):
            raise UsageError(f"--dedup {self.kind!r}: expected none, exact or near")
        if not 0.5 <= self.threshold <= 1:
            raise UsageError(f"--dedup-threshold {self.threshold}: expected a similarity from 0.5 to 1")

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return self.kind != "none"

    @property
    def banding(self) -> Banding | None:
        """How signatures are cut; None if there are none.

        Candidates are verified, so bands need only miss few: at 0.8, 16 bands of 8 slots miss 5 %, at 0.9 none. Below
        0.7, 32 bands of 4 slots. A band has 64 bits either way, so few meet by chance among 10^9 documents.
        """
        if self.kind != "near":
            return None
        return Banding(slots=8, bits=8) if self.threshold >= _WIDE_BANDS_FROM else Banding(slots=4, bits=16)

    def described(self) -> dict[str, Any]:
        """For the manifest and the job's identity. Empty: nothing is asked for."""
        if not self:
            return {}
        described: dict[str, Any] = {"kind": self.kind, "keep": "first", "text_hash": "sha256-128"}
        if (banding := self.banding) is not None:
            described |= {
                "threshold": self.threshold,
                "shingle_words": SHINGLE_WORDS,
                "signature": f"rensa.RMinHash 2: {SLOTS} slots, the low {banding.bits} bits, seed {SEED}",
                "bands": banding.bands,
            }
        return described
