import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.manifests.cursor import Cursor

cursors = st.builds(
    Cursor,
    next_sample=st.integers(0, 2**63 - 1),
    plan_hash=st.text("0123456789abcdef", min_size=64, max_size=64),
    parts=st.dictionaries(
        st.text("abc_", min_size=1, max_size=20), st.text("0123f:", max_size=16), max_size=9
    ),
)


@given(cursors)
def test_law_2_saving_and_loading_is_the_identity(cursor: Cursor) -> None:
    data = cursor.to_json()
    assert Cursor.from_json(data) == cursor
    assert Cursor.from_json(data).to_json() == data
    assert Cursor.from_dict(cursor.to_dict()) == cursor


@given(cursors)
def test_law_2_a_cursor_is_under_one_kilobyte_of_json(cursor: Cursor) -> None:
    assert len(cursor.to_json()) < 1024


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2"),
        ({"format": "other"}, "format"),
        ({"next_sample": -1}, "next_sample is -1"),
        ({"next_sample": 2**63}, "next_sample"),
        ({"next_sample": 1.5}, "integer"),
        ({"next_sample": True}, "integer"),
        ({"plan_hash": None}, "string"),
        ({"parts": {"a": 1}}, "strings"),
        ({"more": 1}, "keys"),
    ],
)
def test_an_altered_cursor_is_refused(change: dict[str, Any], message: str) -> None:
    value = Cursor(next_sample=3, plan_hash="ab" * 32, parts={}).to_dict() | change
    with pytest.raises(InputError, match=message):
        Cursor.from_json(json.dumps(value).encode())
