from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.mixture import intervals
from headrace.errors import UsageError

weights_of = st.lists(
    st.one_of(st.just(0.0), st.integers(1, 10**6), st.floats(1e-9, 1e9)), min_size=1, max_size=8
).filter(any)


@given(weights_of)
def test_intervals_tile_the_whole_range_in_order(weights: list[float]) -> None:
    cut = intervals(weights)
    edge = 0
    for low, top, used in zip(cut.low.tolist(), cut.top.tolist(), cut.used.tolist(), strict=True):
        if used:
            assert low == edge
            assert top >= low
            edge = top + 1
    assert edge == 1 << 64


@given(weights_of)
def test_widths_are_the_weights_to_within_one_part_in_2_to_the_64(weights: list[float]) -> None:
    cut = intervals(weights)
    total = sum(Fraction(repr(w)) for w in weights)
    for weight, low, top, used in zip(
        weights, cut.low.tolist(), cut.top.tolist(), cut.used.tolist(), strict=True
    ):
        assert used == (weight > 0)
        if used:
            assert abs(Fraction(top - low + 1) - Fraction(repr(weight)) * (1 << 64) / total) <= 1


@given(weights_of, st.integers(1, 1000))
def test_only_proportions_matter_for_whole_weights(weights: list[float], factor: int) -> None:
    whole = [int(w) for w in weights]
    if not any(whole):
        return
    assert intervals(whole).top.tolist() == intervals([w * factor for w in whole]).top.tolist()


def test_a_weight_too_small_to_ever_be_drawn_is_refused() -> None:
    with pytest.raises(UsageError, match=r"2\*\*-64"):
        intervals([1.0, 1e-30, 1e-30, 1.0])


def test_all_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="every weight"):
        intervals([0, 0.0])
