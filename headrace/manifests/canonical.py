"""JSON with one spelling per value, so that a hash of it is the hash of the value."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, Final

from headrace.errors import InputError

_MAX_DEPTH: Final = 32  # of what headrace writes, nothing comes near


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8, shortest floats; NaN and infinities raise `ValueError`."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def pretty_json(value: Any) -> bytes:
    """The form written to disk: as deterministic as `canonical_json`, indented, with a final newline."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return text.encode() + b"\n"


def parse_json_object(data: bytes, where: str) -> dict[str, Any]:
    """Parses `data` as one JSON object that `canonical_json` can spell.

    Raises:
        InputError: not UTF-8, not JSON, not an object, a key given twice, nested more than 32 deep, or a value that
            has no spelling: NaN, an infinity, a lone surrogate.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is given twice")
        return found

    try:
        value = json.loads(data, object_pairs_hook=unique)
        _check(value, 0)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where}: not a JSON object that headrace can read ({reason})") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def _check(value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check(key, depth)
            _check(entry, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _check(entry, depth + 1)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")


def sha256_hex(data: bytes | memoryview) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
