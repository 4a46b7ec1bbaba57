from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.feistel import permutation, permute, permute_reference
from headrace.kernels.mix import derive_reference

keys = st.integers(0, 2**64 - 1)
sizes = st.one_of(st.integers(1, 20), st.integers(1, 5000), st.integers(1, 2**63))


@given(sizes, keys, st.data())
def test_one_image_equals_the_definition(size: int, key: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    image = int(permute(np.uint64(index), np.uint64(size), np.uint64(key)))
    assert image == permute_reference(index, size, key)
    assert 0 <= image < size


@given(st.integers(1, 3000), keys)
def test_every_key_names_a_permutation(size: int, key: int) -> None:
    assert np.array_equal(np.sort(permutation(size, np.uint64(key))), np.arange(size))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_permutations_of_a_small_set_are_equally_likely(size: int) -> None:
    """Chi-squared at 200 draws an outcome: with fixed keys, so it passes always or never."""
    factorial = int(np.prod(np.arange(1, size + 1)))
    draws = 200 * factorial
    seen = Counter(tuple(permutation(size, np.uint64(derive_reference(7, n)))) for n in range(draws))
    assert len(seen) == factorial
    statistic = sum((count - 200) ** 2 / 200 for count in seen.values())
    freedom = factorial - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5 + 10


def test_neighbours_are_sent_far_apart() -> None:
    """For a random permutation of n the mean distance of neighbours' images is n / 3, within 5 sigma here."""
    size = 100_000
    distance = np.abs(np.diff(permutation(size, np.uint64(5)))).mean() / size
    assert abs(distance - 1 / 3) < 5 * (1 / 18 / size) ** 0.5
