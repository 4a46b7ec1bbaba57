"""Which source a (lane, position) draws from, and how often a lane drew from it before.

    u(lane, p) = (offset + p * A + lane * B) mod 2**64,   A ~ 2**64 / g,  B ~ 2**64 / g**2, both odd

g is the plastic number (the real root of x**3 = x + 1): the R2 sequence of Roberts ("The Unreasonable
Effectiveness of Quasirandom Sequences", 2018), in 64-bit fixed point. A source owns an interval of [0, 2**64) as
wide as its weight; the lattice visits every interval as evenly along a lane as across the lanes of one batch.

How many of a lane's first p positions fall below a bound is a floor sum, O(log p) by the Euclidean algorithm
(Graham, Knuth, Patashnik, "Concrete Mathematics", 3.5), so that seeking is exact and costs the same everywhere.
"""

from __future__ import annotations

import numpy as np

from headrace.kernels.jit import njit

A = 0xC13FA9A902A6328F
B = 0x91E10DA5C79E7B1D
MODULUS = 1 << 64

_A, _B = np.uint64(A), np.uint64(B)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_TOP = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit
def point(lane: np.uint64, position: np.uint64, offset: np.uint64) -> np.uint64:
    """u(lane, position) as uint64."""
    return offset + position * _A + lane * _B


@njit
def multiply_high(x: np.uint64, y: np.uint64) -> np.uint64:
    """The upper 64 bits of the 128-bit product."""
    x0, x1 = x & _LOW, x >> _32
    y0, y1 = y & _LOW, y >> _32
    low = x0 * y0
    middle = x1 * y0 + (low >> _32)
    other = x0 * y1 + (middle & _LOW)
    return x1 * y1 + (middle >> _32) + (other >> _32)


@njit
def divide_128(high: np.uint64, low: np.uint64, divisor: np.uint64) -> tuple[np.uint64, np.uint64]:
    """(quotient, remainder) of high * 2**64 + low by `divisor`; needs high < divisor.

    Knuth's algorithm D with 32-bit digits (TAOCP vol. 2, 4.3.1).
    """
    if high == _ZERO:
        return low // divisor, low % divisor
    shift = _ZERO
    while (divisor >> np.uint64(63)) == _ZERO:
        divisor <<= _ONE
        shift += _ONE
    if shift > _ZERO:
        high = (high << shift) | (low >> (np.uint64(64) - shift))
        low <<= shift
    d1, d0 = divisor >> _32, divisor & _LOW
    l1, l0 = low >> _32, low & _LOW
    q1 = high // d1
    r = high - q1 * d1
    while q1 > _LOW or q1 * d0 > ((r << _32) | l1):
        q1 -= _ONE
        r += d1
        if r > _LOW:
            break
    middle = (high << _32) + l1 - q1 * divisor
    q0 = middle // d1
    r = middle - q0 * d1
    while q0 > _LOW or q0 * d0 > ((r << _32) | l0):
        q0 -= _ONE
        r += d1
        if r > _LOW:
            break
    remainder = (middle << _32) + l0 - q0 * divisor
    return (q1 << _32) + q0, remainder >> shift


@njit
def _triangle(n: np.uint64) -> np.uint64:
    """The triangular number n * (n - 1) / 2, mod 2**64."""
    if n & _ONE:
        return n * ((n - _ONE) >> _ONE)
    return (n >> _ONE) * (n - _ONE)


@njit
def floor_sum(n: np.uint64, b: np.uint64) -> np.uint64:
    """Sum over i < n of floor((i * A + b) / 2**64), mod 2**64."""
    if n == _ZERO:
        return _ZERO
    # The first step divides by 2**64, which no uint64 holds: the quotient is the upper half of the product.
    low = _A * n
    high = multiply_high(_A, n)
    total = low + b
    if total < low:
        high += _ONE
    n, b = high, total
    if n == _ZERO:
        return _ZERO
    m = _A
    rest = _ZERO - _A  # 2**64 - A
    answer = _triangle(n) * (rest // m + _ONE)
    a = rest % m
    while True:
        if b >= m:
            answer += n * (b // m)
            b %= m
        low = a * n
        high = multiply_high(a, n)
        total = low + b
        if total < low:
            high += _ONE
        if high == _ZERO and total < m:
            return answer
        n, b = divide_128(high, total, m)
        a, m = m, a
        answer += _triangle(n) * (a // m)
        a %= m


@njit
def count_at_most(lane: np.uint64, positions: np.uint64, offset: np.uint64, top: np.uint64) -> np.uint64:
    """How many p < positions have u(lane, p) <= top."""
    if top == _TOP:
        return positions
    start = offset + lane * _B
    # u <= top  <=>  floor((x + 2**64 - top - 1) / 2**64) did not step beyond floor(x / 2**64)
    shifted = start + (_TOP - top)
    count = positions + floor_sum(positions, start) - floor_sum(positions, shifted)
    if shifted < start:
        count -= positions
    return count


def point_reference(lane: int, position: int, offset: int) -> int:
    return (offset + position * A + lane * B) % MODULUS


def count_at_most_reference(lane: int, positions: int, offset: int, top: int) -> int:
    """The definition: look at every position."""
    return sum(point_reference(lane, p, offset) <= top for p in range(positions))


def count_at_most_exact(lane: int, positions: int, offset: int, top: int) -> int:
    """The floor sums in unbounded integers: checks the 64-bit arithmetic where counting takes too long."""
    start = (offset + lane * B) % MODULUS
    return (
        positions
        + _floor_sum_exact(positions, MODULUS, A, start)
        - _floor_sum_exact(positions, MODULUS, A, start + MODULUS - 1 - top)
    )


def _floor_sum_exact(n: int, m: int, a: int, b: int) -> int:
    answer = 0
    while n > 0:
        answer += n * (n - 1) // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        total = a * n + b
        n, b, m, a = total // m, total % m, a, m
        if total < a:  # a is the old m here
            break
    return answer
