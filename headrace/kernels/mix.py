"""64-bit mixing: the finalizer of SplitMix64 (Steele, Lea, Flood 2014; constants: Stafford's variant 13)."""

from __future__ import annotations

import numpy as np

from headrace.kernels.jit import njit

MASK = (1 << 64) - 1
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@njit
def mix64(x: np.uint64) -> np.uint64:
    """A bijection of uint64 whose every output bit depends on every input bit."""
    x = (x ^ (x >> _30)) * _M1
    x = (x ^ (x >> _27)) * _M2
    return x ^ (x >> _31)


@njit
def derive(key: np.uint64, word: np.uint64) -> np.uint64:
    """A new key from `key` and one word; chain it for several words (order matters)."""
    return mix64(mix64(key + _GOLDEN) ^ word)


def mix64_reference(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive_reference(key: int, word: int) -> int:
    return mix64_reference(mix64_reference((key + 0x9E3779B97F4A7C15) & MASK) ^ word)
