"""What a run was made of, start by start: data, order, configuration and code, each by its hash (docs/formats/run.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from headrace.errors import InputError
from headrace.manifests.canonical import parse_json_object, pretty_json

RUN = "run.json"
FORMAT = "headrace.run"
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """One start of the job, with the number the ledger gives it.

    config_hash: SHA-256 of the resolved configuration. datasets: name -> content hash. world_size: ranks.
    software: package -> version, of what can change a number.
    """

    attempt: int
    first_step: int
    plan_hash: str
    config_hash: str
    world_size: int
    device: str
    datasets: dict[str, str]
    software: dict[str, str]


@dataclass(frozen=True, slots=True)
class RunManifest:
    """Every start of a run, in order."""

    starts: tuple[Start, ...] = ()

    def with_start(self, start: Start) -> RunManifest:
        """This run, started once more. A start that the ledger does not know (its number was given again) is dropped."""
        return RunManifest((*(s for s in self.starts if s.attempt < start.attempt), start))

    def to_bytes(self) -> bytes:
        return pretty_json({"format": FORMAT, "version": VERSION, "starts": [asdict(s) for s in self.starts]})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> RunManifest:
        """Raises `InputError` for anything that `to_bytes` does not write."""
        value = parse_json_object(data, where)
        if value.get("format") != FORMAT or value.get("version") != VERSION:
            raise InputError(
                f"{where}: format {value.get('format')!r} version {value.get('version')!r}; this headrace reads "
                f"{FORMAT!r} version {VERSION}"
            )
        starts = value.get("starts")
        expected = {f.name for f in fields(Start)}
        if not isinstance(starts, list) or any(not _is_start(start, expected) for start in starts):
            raise InputError(
                f"{where}: expected a list of starts, each with {sorted(expected)}; restore the file"
            )
        return cls(tuple(Start(**start) for start in starts))


def _is_start(value: Any, expected: set[str]) -> bool:
    return isinstance(value, dict) and set(value) == expected and type(value["attempt"]) is int
