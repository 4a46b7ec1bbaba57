"""`checkpoint.json`: what a checkpoint is and the hash of every file in it (docs/formats/checkpoint.md). No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json, sha256_hex
from headrace.manifests.cursor import Cursor

RECORD = "checkpoint.json"
FORMAT = "headrace.checkpoint"
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointRecord:
    """The state after `step` steps; the next one is number `step` and starts at `cursor`.

    attempt: which start of the job wrote it; with `step` it is the position in the ledger.
    world_size, global_batch_size: of the job that wrote it; any other may read it.
    model: the resolved `model` section. config_hash: of the whole resolved configuration.
    files: every other file of the checkpoint, by name.
    """

    step: int
    cursor: Cursor
    attempt: int
    world_size: int
    global_batch_size: int
    config_hash: str
    model: dict[str, Any]
    files: dict[str, StoredFile]

    def to_bytes(self) -> bytes:
        body = self._body()
        return pretty_json({**body, "sha256": sha256_hex(canonical_json(body))})

    def _body(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "step": self.step,
            "cursor": self.cursor.to_dict(),
            "ledger": {"attempt": self.attempt, "steps": self.step},
            "world_size": self.world_size,
            "global_batch_size": self.global_batch_size,
            "config_hash": self.config_hash,
            "model": self.model,
            "files": {name: asdict(file) for name, file in self.files.items()},
        }

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> CheckpointRecord:
        """Raises:
        DamageError: these are not the bytes that were written.
        InputError: they are, but this headrace cannot continue from them: another version, or no cursor.
        """
        try:
            body = parse_json_object(data, where)
        except InputError as error:
            raise DamageError(str(error)) from None
        recorded = body.pop("sha256", None)
        if recorded != sha256_hex(canonical_json(body)):
            raise DamageError(f"{where}: its content differs from its own hash {recorded}")
        if body.get("format") != FORMAT or body.get("version") != VERSION:
            raise InputError(
                f"{where}: format {body.get('format')!r} version {body.get('version')!r}; this headrace reads "
                f"{FORMAT!r} version {VERSION}"
            )
        if body.get("cursor") is None:
            raise InputError(
                f"{where}: this checkpoint has no cursor, so the next sample is unknown; training on from it would "
                "repeat or skip data. Continue from a checkpoint that has one"
            )
        try:
            return cls(
                step=body["step"],
                cursor=Cursor.from_dict(body["cursor"], where),
                attempt=body["ledger"]["attempt"],
                world_size=body["world_size"],
                global_batch_size=body["global_batch_size"],
                config_hash=body["config_hash"],
                model=body["model"],
                files={name: StoredFile(**file) for name, file in body["files"].items()},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where}: not a checkpoint record that headrace wrote ({error!r})") from None
