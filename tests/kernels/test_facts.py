from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.facts import FACTS, facts
from headrace.kernels.facts_reference import facts_reference

# Few letters, so that words, lines and paragraphs repeat; the signs that count; every width of UTF-8; scripts without spaces.
ODD = st.sampled_from([*"aab -*#.…\n\n\t\r7!", "\u3000", "\x85", "\u2028", "\xa0", "é", "水", "火", "ก", "🙂", "٣", "\U00050000", "\0"])  # fmt: skip
WORDS = st.lists(st.sampled_from(["a", "b", "cd", "ef.", "\n", "\n\n", "水"]), max_size=60).map(" ".join)
LINES = st.lists(
    st.sampled_from(["", " ", "- one", "two...", "  two...", "three  four", "水火。"]), max_size=14
).map("\n".join)
TEXTS = st.one_of(st.text(ODD, max_size=60), WORDS, LINES, st.text(max_size=40))


def counted(texts: list[str], *, runs: bool = True) -> list[dict[str, int]]:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)])
    rows = facts(np.frombuffer(b"".join(encoded), np.uint8), offsets, runs=runs)
    return [dict(zip(FACTS, row, strict=True)) for row in rows.tolist()]


@settings(deadline=None)  # the first call compiles
@given(texts=st.lists(TEXTS, max_size=5))
def test_facts_are_what_the_reference_says_whatever_stands_before_and_behind_a_text(texts: list[str]) -> None:
    assert counted(texts) == [facts_reference(text) for text in texts]


@settings(deadline=None)
@given(text=TEXTS)
def test_without_runs_all_other_facts_are_the_same(text: str) -> None:
    (found,) = counted([text], runs=False)
    expected = facts_reference(text)
    assert found == {name: 0 if "gram_" in name else value for name, value in expected.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two, three", {"chars": 12, "words": 3, "spaced_word_chars": 12, "lines": 1, "line_chars": 14}),
        ("水が流れる。", {"words": 6, "told_words": 5, "lettered_words": 5, "spaced_words": 0, "chars": 6}),
        ("ab水cd", {"words": 3, "spaced_words": 2, "spaced_word_chars": 4}),
        ("٣ 4 !", {"digits": 2, "words": 3, "told_words": 2, "lettered_words": 0}),
        ("a\n\nb\n \nb\nc\n\nb\nc", {"paragraphs": 4, "repeated_paragraphs": 1, "repeated_lines": 3, "line_feeds": 8}),
        ("..... .. … a....", {"ellipses": 3, "ellipsis_lines": 1}),
        ("go go go go", {"top_2gram_chars": 12, "repeated_5gram_chars": 0}),
        ("a b c d e a b c d e", {"repeated_5gram_chars": 5, "repeated_6gram_chars": 0, "top_2gram_chars": 4}),
        ("", dict.fromkeys(FACTS, 0)),
    ],
)  # fmt: skip
def test_examples_worked_by_hand(text: str, expected: dict[str, int]) -> None:
    (found,) = counted([text])
    assert {name: found[name] for name in expected} == expected
    assert facts_reference(text) == found


def test_a_long_text_needs_no_more_room_than_was_made() -> None:
    """Parts of one byte each are the most that a text can have."""
    texts = ["a " * 5_000, "a\n" * 5_000, "a\n\n" * 5_000, "水" * 5_000, "a水" * 4_000, "\n" * 5_000, "a"]
    for text in texts:
        assert counted([text]) == [facts_reference(text)]
