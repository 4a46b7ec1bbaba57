"""From a JSON object to a dataclass: exactly its entries, each of exactly the type that the class says."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, TypeVar

from headrace.errors import InputError

_T = TypeVar("_T")
# By annotation as it is written. A field annotated otherwise is its caller's to check.
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "str": (str,),
    "int | None": (int, type(None)),
    "str | None": (str, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, int]": (dict,),
    "dict[str, str]": (dict,),
}
_VALUES: Final = {"dict[str, int]": int, "dict[str, str]": str}


def build(kind: type[_T], value: Any, where: str) -> _T:
    """`kind(**value)`, where `value` is an object with the fields of the dataclass `kind` and nothing else.

    Raises:
        InputError: not an object; an entry missing, unknown or of another type (True is not 1, and neither is 1.0);
            an integer outside int64.
    """
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected an object, found {type(value).__name__}")
    declared = {f.name: f.type for f in fields(kind)}  # type: ignore[arg-type]
    if value.keys() != declared.keys():
        missing, unknown = sorted(declared.keys() - value.keys()), sorted(value.keys() - declared.keys())
        raise InputError(
            f"{where}: missing entries {missing}, unknown entries {unknown}; the file is refused"
        )
    for name, annotation in declared.items():
        assert isinstance(annotation, str), "the module of a kind has `from __future__ import annotations`"
        found, allowed = value[name], _TYPES.get(annotation)
        if allowed is None:
            continue
        inner = _VALUES.get(annotation)
        if not _is(found, allowed) or (inner and not all(_is(entry, (inner,)) for entry in found.values())):
            raise InputError(
                f"{where}: {name} is {_short(found)}, which has the wrong type; expected {annotation}"
            )
    return kind(**value)


def _is(value: Any, allowed: tuple[type, ...]) -> bool:
    return type(value) in allowed and (type(value) is not int or -(1 << 63) <= value < 1 << 63)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
