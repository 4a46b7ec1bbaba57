from decimal import Decimal, localcontext

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.lattice import (
    A,
    B,
    count_at_most,
    count_at_most_exact,
    count_at_most_reference,
    divide_128,
    multiply_high,
    point,
    point_reference,
)

words = st.integers(0, 2**64 - 1)
tops = st.one_of(words, st.sampled_from([0, 1, 2**63, 2**64 - 2, 2**64 - 1]))
lanes = st.integers(0, 2**20)


def test_the_steps_are_the_plastic_number_to_64_bits() -> None:
    with localcontext() as context:
        context.prec = 60
        g = Decimal("1.3247179572447460259609088544780973407344040569017333645340150503028278512455475940")
        assert abs(g**3 - g - 1) < Decimal("1e-50")
        for constant, exact in ((A, 2**64 / g), (B, 2**64 / g**2)):
            assert constant % 2 == 1
            assert abs(constant - exact) <= 1


@given(words, words)
def test_wide_multiplication_equals_python(x: int, y: int) -> None:
    assert int(multiply_high(np.uint64(x), np.uint64(y))) == x * y >> 64


@given(words, words, st.integers(1, 2**64 - 1))
def test_wide_division_equals_python(high: int, low: int, divisor: int) -> None:
    high %= divisor
    quotient, remainder = divide_128(np.uint64(high), np.uint64(low), np.uint64(divisor))
    assert (int(quotient), int(remainder)) == divmod(high << 64 | low, divisor)


@given(lanes, st.integers(0, 400), words, tops)
def test_the_closed_count_equals_counting(lane: int, positions: int, offset: int, top: int) -> None:
    counted = count_at_most_reference(lane, positions, offset, top)
    assert count_at_most_exact(lane, positions, offset, top) == counted
    assert int(count_at_most(*(np.uint64(v) for v in (lane, positions, offset, top)))) == counted


@given(lanes, st.integers(0, 2**62), words, tops)
@settings(max_examples=500)
def test_the_count_is_exact_at_any_distance(lane: int, positions: int, offset: int, top: int) -> None:
    fast = count_at_most(*(np.uint64(v) for v in (lane, positions, offset, top)))
    assert int(fast) == count_at_most_exact(lane, positions, offset, top)


@given(lanes, st.integers(0, 2**62), words)
def test_points_wrap_as_defined(lane: int, position: int, offset: int) -> None:
    assert int(point(np.uint64(lane), np.uint64(position), np.uint64(offset))) == point_reference(
        lane, position, offset
    )
