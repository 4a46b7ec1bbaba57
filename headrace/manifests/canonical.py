"""JSON with one spelling per value, so that a hash of it is the hash of the value."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from headrace.errors import InputError


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
    """Parses `data` as one JSON object without duplicate keys.

    Raises:
        InputError: not UTF-8, not JSON, nested too deeply, not an object, or a key given twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is given twice")
        return found

    try:
        value = json.loads(data, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where}: not a JSON object that headrace can read ({reason})") from None
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def sha256_hex(data: bytes | memoryview) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
