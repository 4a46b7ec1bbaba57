"""What a job has finished: one small file a work unit, each written whole, on any store.

    _units/job.json                  the job's identity: what it reads and everything that decides its bytes
    _units/000012.json               unit 12 is done: its shards, lineage and rejects with their hashes, its counts
    _units/000012.rejects.parquet    the rows that unit 12 rejected, if any

The files of a unit are stored before its record is. The journal is removed once the manifest is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.dataeng.storage import Store
from headrace.errors import InputError, MismatchError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json, sha256_hex
from headrace.manifests.names import checked_name
from headrace.manifests.shard_table import ShardRow
from headrace.manifests.typed import build

DIRECTORY: Final = "_units"
SCAN_DIRECTORY: Final = "_scan"  # what was found on the way to duplicates: dedup/journal.py
JOB: Final = f"{DIRECTORY}/job.json"
# What is counted of a file, a unit and a dataset.
COUNTED: Final = ("rows", "documents", "rejected", "tokens", "text_bytes")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCounts:
    """What a unit took from one source file; `file` is its position among the sources."""

    file: int
    rows: int = 0
    documents: int = 0
    rejected: int = 0
    tokens: int = 0
    text_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitRecord:
    """The outcome of one unit. `examples` are a few rejects in words, for messages."""

    unit: int
    shards: tuple[ShardRow, ...]
    sources: tuple[SourceCounts, ...]
    rejects: dict[str, int]
    rejects_file: StoredFile | None
    examples: tuple[str, ...]
    scanned: str | None = None  # which scan and which duplicates it goes by, if they were looked for

    def total(self, what: str) -> int:
        """The sum of one count over the unit's sources."""
        return sum(getattr(source, what) for source in self.sources)


class Journal:
    """The journal of the job in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def job(self) -> dict[str, Any] | None:
        """The identity of the job that was begun here, or None."""
        try:
            data = self._store.read(JOB)
        except FileNotFoundError:
            return None
        return parse_json_object(data, self._store.describe(JOB))

    def begin(self, identity: dict[str, Any]) -> None:
        """Records the identity, unless another job has begun here in this moment: `job` says whose it is."""
        self._store.create(JOB, pretty_json(identity))

    def take_over(self, stale: dict[str, Any], identity: dict[str, Any]) -> None:
        """Puts `identity` in the place of a job that is over; of several who do, one succeeds: `job` says who."""
        if self._store.replace(JOB, pretty_json(identity), expected=pretty_json(stale)):
            for name in self._store.list(DIRECTORY):
                if name != JOB:
                    self._store.remove(name)

    def write(self, record: UnitRecord) -> None:
        body = asdict(record)
        self._store.write(
            _name(record.unit), pretty_json({**body, "sha256": sha256_hex(canonical_json(body))})
        )

    def records(self) -> dict[int, UnitRecord]:
        """Every finished unit. A record that cannot be read is as good as none: the unit is done again."""
        names = [name for name in self._store.list(DIRECTORY) if name.endswith(".json") and name != JOB]

        def read(name: str) -> UnitRecord | None:
            try:
                record = _record(parse_json_object(self._store.read(name), name), name)
            except (InputError, KeyError, TypeError, FileNotFoundError):
                return None
            return record if _name(record.unit) == name else None

        with ThreadPoolExecutor(max_workers=16) as pool:  # one round trip each, on an object store
            return {record.unit: record for record in pool.map(read, names) if record is not None}

    def remove(self) -> None:
        """Removes every trace; the job's identity goes last, so that a kill in between is repaired by a re-run."""
        for name in [*self._store.list(SCAN_DIRECTORY), *self._store.list(DIRECTORY)]:
            if name != JOB:
                self._store.remove(name)
        self._remove_directory(SCAN_DIRECTORY)
        self._store.remove(JOB)
        self._remove_directory(DIRECTORY)

    def _remove_directory(self, name: str) -> None:
        if self._store.is_local and (directory := self._store.local_path(name)).is_dir():
            directory.rmdir()


def require_same_job(found: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    """Raises MismatchError naming every entry in which two jobs differ."""
    if told := differences(found, wanted):
        raise MismatchError(
            f"{where} holds another tokenization; nothing was changed. It differs in\n{told}\n"
            "Run the command that began it, or give another --out (or remove this one, if nothing in it is wanted). To add "
            "to a dataset, give it as --onto"
        )


def differences(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Every entry in which two jobs differ, one a line; empty if none."""
    return "\n".join(
        f"  {path}: there {_short(there)}, here {_short(here)}"
        for path, there, here in _differences("", found, wanted)
    )


def _differences(path: str, found: Any, wanted: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        return [
            difference
            for key in sorted({*found, *wanted})
            for difference in _differences(f"{path}.{key}" if path else key, found.get(key), wanted.get(key))
        ]
    return [] if found == wanted else [(path, found, wanted)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def rejects_name(unit: int) -> str:
    return f"{DIRECTORY}/{unit:06d}.rejects.parquet"


def _name(unit: int) -> str:
    return f"{DIRECTORY}/{unit:06d}.json"


def _record(value: dict[str, Any], where: str) -> UnitRecord:
    """Raises InputError, KeyError or TypeError for what `Journal.write` did not write.

    The hash is there because counts cannot be checked otherwise: the files behind them have hashes of their own.
    """
    if value.pop("sha256") != sha256_hex(canonical_json(value)):
        raise InputError(f"{where}: its content differs from its own hash")
    rejects_file = value["rejects_file"]
    fixed = {
        "shards": tuple(build(ShardRow, shard, where) for shard in value["shards"]),
        "sources": tuple(build(SourceCounts, source, where) for source in value["sources"]),
        "rejects_file": None if rejects_file is None else build(StoredFile, rejects_file, where),
        "examples": tuple(value["examples"]),
    }
    record = build(UnitRecord, {**value, **fixed}, where)
    for file in files_of(record):
        checked_name(file.name, where)
    return record


def files_of(record: UnitRecord) -> Iterator[StoredFile]:
    """Every file that the unit stored."""
    for shard in record.shards:
        yield StoredFile(name=shard.name, sha256=shard.stored_sha256)
        yield StoredFile(name=shard.lineage, sha256=shard.lineage_sha256)
    if record.rejects_file is not None:
        yield record.rejects_file


def is_intact(store: Store, file: StoredFile) -> bool:
    """Whether the stored bytes are still those whose hash was recorded; read in bounded memory."""
    digest = hashlib.sha256()
    try:
        with store.open(file.name) as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        return False
    return digest.hexdigest() == file.sha256
