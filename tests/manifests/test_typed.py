from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from headrace.errors import InputError
from headrace.manifests.typed import build


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    count: int
    name: str | None
    reasons: dict[str, int]
    extra: dict[str, Any]
    parts: tuple[int, ...] = ()


GOOD: dict[str, Any] = {"count": 3, "name": None, "reasons": {"null": 1}, "extra": {"x": [None]}, "parts": ()}


def test_an_object_with_exactly_the_fields_is_the_thing() -> None:
    assert build(Thing, GOOD, "here") == Thing(**GOOD)


@pytest.mark.parametrize(
    "change",
    [
        {"count": True},
        {"count": 1.0},
        {"count": "1"},
        {"count": None},
        {"count": 2**63},
        {"count": -(2**63) - 1},
        {"name": 1},
        {"reasons": []},
        {"reasons": {"null": True}},
        {"reasons": {"null": 2**70}},
        {"extra": [1]},
        {"other": 1},
    ],
)
def test_anything_else_is_refused_by_name(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"here.*{next(iter(change))}"):
        build(Thing, GOOD | change, "here")


@pytest.mark.parametrize("value", [None, [], "x", 3, {}, {"count": 1}])
def test_what_is_no_such_object_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="here"):
        build(Thing, value, "here")


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(InputError) as caught:
        build(Thing, GOOD | {"count": "9" * 10_000}, "here")
    assert len(str(caught.value)) < 200
