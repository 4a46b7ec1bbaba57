import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.dictionaries(st.text(), scalars | st.lists(scalars))
# JSON has no lone surrogates to encode as UTF-8.
encodable = values.filter(lambda v: "\\ud" not in json.dumps(v))


@given(encodable)
def test_key_order_does_not_change_the_bytes(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical_json(value) == canonical_json(backwards)
    assert pretty_json(value) == pretty_json(backwards)


@given(encodable)
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    assert parse_json_object(canonical_json(value), "x") == value
    assert parse_json_object(pretty_json(value), "x") == value


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'"a"',
        b'{"a":1,"a":2}',
        b"\xff",
        b'{"a":',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 100 + b"1" + b"}" * 100,  # what parses here would be too deep for `asdict`
        b'{"a":[' * 20 + b"1" + b"]}" * 20,
        b'{"a":NaN}',
        b'{"a":[1e999]}',
        b'{"a":"\\ud800"}',
        b'{"\\udfff":1}',
    ],
)
def test_anything_but_one_object_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InputError, match=r"here\.json"):
        parse_json_object(data, "here.json")
