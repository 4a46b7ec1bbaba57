from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.words import (
    CLASSES,
    FOLDED,
    shingle_hash_reference,
    shingle_hashes,
    shingles_reference,
    word_hash_reference,
    word_hashes,
    words_reference,
)

# Scripts, separators and plain words are likely beside each other; anything at all is possible.
TEXT = st.lists(
    st.one_of(st.sampled_from([*" \n.,-_'aZ0éßΩЖ水かกक \u200c\u0301", "\U00020000", "\U0001f600"]), st.characters(codec="utf-8")),
    max_size=60,
).map("".join)  # fmt: skip


def hashed(texts: list[str], length: int) -> tuple[list[list[int]], list[list[int]]]:
    encoded = [text.encode() for text in texts]
    data = np.frombuffer(b"#" + b"".join(encoded), np.uint8)  # a view that does not begin at 0
    offsets = np.cumsum([1, *map(len, encoded)])
    words, word_offsets = word_hashes(data, offsets)
    shingles, shingle_offsets = shingle_hashes(words, word_offsets, length)
    return tuple(
        [values[begin:end].tolist() for begin, end in pairwise(bounds.tolist())]
        for values, bounds in ((words, word_offsets), (shingles, shingle_offsets))
    )  # type: ignore[return-value]


@settings(deadline=None)  # the first call compiles
@given(texts=st.lists(TEXT, max_size=6), length=st.integers(1, 6))
def test_words_and_shingles_are_what_the_reference_says(texts: list[str], length: int) -> None:
    words, shingles = hashed(texts, length)
    expected = [words_reference(text) for text in texts]
    assert words == [[word_hash_reference(word) for word in of_text] for of_text in expected]
    assert shingles == [
        [shingle_hash_reference(shingle) for shingle in shingles_reference(of_text, length)]
        for of_text in expected
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The quick  brown-fox, don't!", ["the", "quick", "brown", "fox", "don", "t"]),
        ("ÉTÉ Straße ΟΔΌΣ МЕЛЬНИЦА", ["été", "straße", "οδόσ", "мельница"]),
        ("水車は回る。", [*"水車は回る"]),
        ("x水y", ["x", "水", "y"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("👍🏽ok", ["👍", "🏽", "ok"]),
        (" \n\t…—!?", []),
        ("", []),
    ],
)
def test_words_of_several_scripts(text: str, words: list[str]) -> None:
    assert words_reference(text) == words


def test_a_text_of_as_many_words_as_can_be_fits() -> None:
    text = "a b" * 1000 + "水" * 1000
    (words,), _ = hashed([text], 5)
    assert len(words) == len(words_reference(text))


def test_the_tables_are_frozen() -> None:
    """Another table would be another near-duplicate: it needs another ALGORITHM_VERSION."""
    tables = CLASSES.tobytes() + FOLDED.astype("<u4").tobytes()
    assert hashlib.sha256(tables).hexdigest()[:16] == "0355c1eba92cc205"
    assert word_hash_reference("channel") == 11830858959925710322
    assert shingle_hash_reference(["a", "channel"]) == 9206777161746026014
