import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.mix import derive, derive_reference, mix64, mix64_reference

words = st.integers(0, 2**64 - 1)


@given(words, words)
def test_compiled_mixing_equals_the_definition(key: int, word: int) -> None:
    assert int(mix64(np.uint64(word))) == mix64_reference(word)
    assert int(derive(np.uint64(key), np.uint64(word))) == derive_reference(key, word)


def test_the_constants_are_those_of_splitmix64() -> None:
    # The first output of SplitMix64 seeded with 0, as published with java.util.SplittableRandom.
    assert mix64_reference(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


def test_the_order_of_words_matters() -> None:
    assert derive_reference(derive_reference(1, 2), 3) != derive_reference(derive_reference(1, 3), 2)
