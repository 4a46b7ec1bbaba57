from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import UsageError
from headrace.tokenize.filters.config import FilterConfig
from headrace.tokenize.filters.length import LengthFilter
from headrace.tokenize.filters.reasons import LONG, SHORT

LIMIT = st.one_of(st.none(), st.integers(1, 12))


@given(texts=st.lists(st.text(max_size=16)), least=LIMIT, most=LIMIT)
def test_characters_are_counted_and_both_limits_are_kept(
    texts: list[str], least: int | None, most: int | None
) -> None:
    judge = LengthFilter(least, most)
    verdict = judge.judge(pa.array(texts, pa.large_string()))
    for text, found in zip(texts, verdict.tolist(), strict=True):
        reasons = {
            SHORT: least is not None and len(text) < least,
            LONG: most is not None and len(text) > most,
        }
        assert (found == 0) == (not any(reasons.values()))
        assert found == 0 or reasons[judge.reasons[found - 1]]


def test_a_character_of_four_bytes_is_one() -> None:
    texts = pa.array(["\N{GRINNING FACE}" * 3, "abcd"], pa.large_string())
    assert LengthFilter(4, None).judge(texts).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"min_chars": 0}, "--min-chars 0: expected 1 or more"),
        ({"max_chars": -5}, "--max-chars -5: expected 1 or more"),
        ({"min_chars": 9, "max_chars": 8}, "no document is both"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FilterConfig(**limits)
