"""Where a stream stands: a number and a name (law 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.errors import InputError
from headrace.manifests.canonical import canonical_json, parse_json_object

FORMAT = "headrace.cursor"
VERSION = 1
MAX_BYTES = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """The next sample id of a plan's stream.

    next_sample: id of the first sample not yet handed out, >= 0, < 2**63.
    plan_hash: SHA-256 (hex) of the plan that the id belongs to.
    parts: short fingerprints of what the plan is made of; they only serve to say *what* differs when the
        plan does, and are not compared when the hashes agree.
    """

    next_sample: int
    plan_hash: str
    parts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.next_sample < 1 << 63:
            raise InputError(f"cursor: next_sample is {self.next_sample}; expected an id in [0, 2**63)")

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "next_sample": self.next_sample,
            "plan_hash": self.plan_hash,
            "parts": dict(self.parts),
        }

    def to_json(self) -> bytes:
        """Under 1 KB of canonical JSON: equal cursors give equal bytes."""
        data = canonical_json(self.to_dict())
        assert len(data) < MAX_BYTES, "a plan has a bounded number of parts"
        return data

    @classmethod
    def from_dict(cls, value: dict[str, Any], where: str = "cursor") -> Cursor:
        """Raises `InputError` for anything `to_dict` does not write."""
        if value.get("format") != FORMAT:
            raise InputError(f"{where}: expected format {FORMAT!r}, found {value.get('format')!r}")
        if value.get("version") != VERSION:
            raise InputError(
                f"{where}: cursor version {value.get('version')!r}; this headrace reads version {VERSION}"
            )
        expected = {"format", "version", "next_sample", "plan_hash", "parts"}
        if set(value) != expected:
            raise InputError(f"{where}: expected the keys {sorted(expected)}, found {sorted(value)}")
        next_sample, plan_hash, parts = value["next_sample"], value["plan_hash"], value["parts"]
        if type(next_sample) is not int or not isinstance(plan_hash, str) or not isinstance(parts, dict):
            raise InputError(f"{where}: expected an integer, a string and an object of strings")
        if not all(isinstance(k, str) and isinstance(v, str) for k, v in parts.items()):
            raise InputError(f"{where}: parts must map strings to strings")
        return cls(next_sample=next_sample, plan_hash=plan_hash, parts=dict(parts))

    @classmethod
    def from_json(cls, data: bytes, where: str = "cursor") -> Cursor:
        return cls.from_dict(parse_json_object(data, where), where)
