"""What a run was made of, start by start: data, order, configuration and code, each by its hash (docs/formats/run.md)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from headrace.errors import InputError
from headrace.manifests.canonical import parse_json_object, pretty_json
from headrace.manifests.typed import build

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
        if not isinstance(starts, list):
            raise InputError(f"{where}: expected a list of starts; restore the file")
        return cls(tuple(build(Start, start, f"{where}: a start") for start in starts))
