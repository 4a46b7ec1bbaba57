"""Checkpoints: whole or absent, verified before use, loadable at any world size (docs/formats/checkpoint.md)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.optim import AdamW

from headrace.dataeng.storage import sync_directory, write_whole
from headrace.errors import DamageError, InputError
from headrace.train.checkpoint_record import RECORD, CheckpointRecord, StoredFile
from headrace.train.leftovers import remove_leftovers
from headrace.train.model.transformer import Transformer
from headrace.train.optimizer import optimizer_state
from headrace.train.parallel import World

LATEST = "latest"
_COMMITTED = re.compile(r"step-(\d{8,})")
_CHUNK = 1 << 22

MakeRecord = Callable[[dict[str, StoredFile]], CheckpointRecord]


def training_state(model: Transformer, optimizer: AdamW) -> dict[str, Any]:
    """Every tensor that a step changes, by name; loading into it changes the model and the optimizer in place."""
    return {"model": model.state_dict(), "optimizer": optimizer_state(model, optimizer)}


class Checkpoints:
    """The directory `checkpoints/` of a run. All ranks call each method together; rank 0 renames and removes."""

    def __init__(self, directory: Path, world: World, *, keep: int) -> None:
        self._directory = directory
        self._world = world
        self._keep = keep

    def clean(self) -> None:
        """Removes what killed writers left unfinished. Before any save of this process."""
        if self._world.rank == 0:
            self._directory.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self._directory)

    def save(self, step: int, state: dict[str, Any], make_record: MakeRecord) -> Path:
        """Writes the checkpoint of `step` done steps; when this returns on rank 0, it is durable and `latest`.

        make_record: turns the hashes of the files into the record, on rank 0.

        Raises:
            InputError: the files cannot be written.
        """
        final = self._directory / _name(step)
        temporary = self._directory / f".tmp-{_name(step)}"
        try:
            save(state, storage_writer=FileSystemWriter(temporary))
        except CheckpointException as error:  # on every rank, with what each of them met
            reasons = sorted(
                {(str(reason) or repr(reason)).splitlines()[0][:200] for reason, _ in error.failures.values()}
            )
            free = shutil.disk_usage(self._directory).free  # torch may name a full disk "unexpected pos"
            raise InputError(
                f"{final}: the checkpoint could not be written, with {free:,} bytes free there ({'; '.join(reasons)}). "
                "The one before it is still the latest: make room, or mend what is wrong, and run the same command again"
            ) from error
        # Each rank hashes the files it has just written, which are still in memory.
        mine = [path for path in temporary.iterdir() if _writer(path.name) == self._world.rank]
        gathered = self._world.gather({path.name: _sync_and_hash(path) for path in mine})
        if self._world.rank == 0:
            files: dict[str, StoredFile] = {}
            for part in gathered:
                assert isinstance(part, dict)
                files |= part
            write_whole(temporary / RECORD, make_record(files).to_bytes())
            self._commit(temporary, final)
            self._prune(step)
        return final

    def load(
        self, state: dict[str, Any], check: Callable[[CheckpointRecord], None]
    ) -> CheckpointRecord | None:
        """Loads the newest whole checkpoint into `state`; None if there is none at all.

        check: raises if the run cannot continue from the record; called before any tensor is read.

        Raises:
            DamageError: there are checkpoints, but each of them is damaged.
        """
        (steps, *_) = self._world.gather(self.committed())
        assert isinstance(steps, list)
        for step in reversed(steps):
            path = self._directory / _name(step)
            record, problem = self._verify(path)
            problems = [p for p in self._world.gather(problem) if p is not None]
            if record is not None and not problems:
                check(record)
                load(state, storage_reader=FileSystemReader(path))
                return record
            if self._world.rank == 0:
                sys.stderr.write(
                    f"headrace train: CHECKPOINT DAMAGED: {problems[0]}\n"
                    f"headrace train: {path} is not used; trying the one before it\n"
                )
        if steps:
            raise DamageError(
                f"{self._directory}: none of the checkpoints {', '.join(map(_name, steps))} is whole; restore one "
                "from a copy, or start again in a new run directory"
            )
        return None

    def committed(self) -> list[int]:
        """Steps of the checkpoints that were committed, ascending, whole or since damaged."""
        if not self._directory.is_dir():
            return []
        found = (_COMMITTED.fullmatch(path.name) for path in self._directory.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def _verify(self, path: Path) -> tuple[CheckpointRecord | None, str | None]:
        """The record, and what is wrong with the files that fall to this rank: ranks share the reading."""
        try:
            record = CheckpointRecord.from_bytes((path / RECORD).read_bytes(), str(path / RECORD))
            for index, (name, expected) in enumerate(sorted(record.files.items())):
                if index % self._world.size == self._world.rank:
                    _verify_file(path / name, expected)
        except (DamageError, OSError) as error:
            return None, str(error)
        return record, None

    def _commit(self, temporary: Path, final: Path) -> None:
        if final.exists():
            # Only a damaged checkpoint is passed over and trained past; it is kept for whoever looks into it.
            damaged = final.with_name(f"damaged-{final.name}")
            shutil.rmtree(damaged, ignore_errors=True)
            os.rename(final, damaged)
        sync_directory(temporary)
        os.rename(temporary, final)
        sync_directory(self._directory)
        write_whole(self._directory / LATEST, f"{final.name}\n".encode())

    def _prune(self, newest: int) -> None:
        # Later ones were found damaged and are being replayed: they count for nothing.
        for step in [step for step in self.committed() if step <= newest][: -self._keep]:
            # Renamed first: a half-removed checkpoint must not look like a damaged one.
            doomed = self._directory / f".tmp-old-{_name(step)}"
            os.rename(self._directory / _name(step), doomed)
            shutil.rmtree(doomed)


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _writer(name: str) -> int:
    """The rank that wrote a file of DCP: `__3_0.distcp` is rank 3's, `.metadata` is rank 0's."""
    match = re.match(r"__(\d+)_", name)
    return int(match[1]) if match else 0


def _hash(path: Path) -> StoredFile:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return StoredFile(bytes=size, sha256=digest.hexdigest())


def _sync_and_hash(path: Path) -> StoredFile:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return _hash(path)


def _verify_file(path: Path, expected: StoredFile) -> None:
    found = path.stat().st_size
    if found != expected.bytes:
        raise DamageError(f"{path}: {found:,} bytes, expected {expected.bytes:,}")
    sha256 = _hash(path).sha256
    if sha256 != expected.sha256:
        raise DamageError(f"{path}: SHA-256 {sha256}, expected {expected.sha256}")
