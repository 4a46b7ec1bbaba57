"""What has been done towards finding duplicates: records in `_scan/`, which is removed with the journal.

_scan/000012.json                    unit 12 was scanned: its files of keys with their hashes, what was read
_scan/000012-000.keys.parquet        keys.py
_scan/decision.json                  which units have drops, and of which scans that follows
_scan/000012.drops.parquet           drops.py
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.errors import HeadraceError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json, sha256_hex
from headrace.manifests.names import checked_name
from headrace.manifests.typed import build
from headrace.tokenize.dedup.keys import KeysFile
from headrace.tokenize.journal import SCAN_DIRECTORY

_DECISION: Final = f"{SCAN_DIRECTORY}/decision.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanRecord:
    """What was read of a unit. digest: keys.DocumentsDigest. counts: as of a tokenized unit, with no tokens."""

    unit: int
    keys: tuple[KeysFile, ...]
    digest: str
    counts: dict[str, int]
    rejects: dict[str, int]

    def total(self, what: str) -> int:
        return self.counts[what]


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitDrops:
    """How many documents of a unit are dropped, and the file that says which."""

    unit: int
    name: str
    sha256: str
    duplicates: int
    near_duplicates: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """Of which scans it follows, and the drops of the units that have any."""

    scans: str
    drops: dict[int, UnitDrops]


class ScanJournal:
    """The scans and the decision of the job in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, record: ScanRecord) -> None:
        self._write(_name(record.unit), asdict(record))

    def forget(self, unit: int) -> None:
        """The next run scans the unit again."""
        self._store.remove(_name(unit))

    def records(self) -> dict[int, ScanRecord]:
        """Every scanned unit. A record that cannot be read is as good as none: the unit is scanned again."""
        names = [
            name for name in self._store.list(SCAN_DIRECTORY) if name.endswith(".json") and name != _DECISION
        ]
        with ThreadPoolExecutor(max_workers=16) as pool:  # one round trip each, on an object store
            found = pool.map(self._record, names)
            return {record.unit: record for record in found if record is not None}

    def write_decision(self, decision: Decision) -> None:
        drops = [asdict(drops) for _, drops in sorted(decision.drops.items())]
        self._write(_DECISION, {"scans": decision.scans, "drops": drops})

    def decision(self, scans: str) -> Decision | None:
        """The decision that follows from the scans with this digest, if there is one."""
        try:
            value = self._read(_DECISION)
            drops = [build(UnitDrops, entry, _DECISION) for entry in value["drops"]]
        except (HeadraceError, KeyError, TypeError, FileNotFoundError):
            return None
        if value["scans"] != scans:
            return None
        return Decision(scans=scans, drops={each.unit: each for each in drops})

    def _record(self, name: str) -> ScanRecord | None:
        try:
            value = self._read(name)
            keys = tuple(build(KeysFile, entry, name) for entry in value["keys"])
            record = build(ScanRecord, {**value, "keys": keys}, name)
            for file in keys:
                checked_name(file.name, name)
        except (HeadraceError, KeyError, TypeError, FileNotFoundError):
            return None
        return record if _name(record.unit) == name else None

    def _write(self, name: str, body: dict[str, Any]) -> None:
        self._store.write(name, pretty_json({**body, "sha256": sha256_hex(canonical_json(body))}))

    def _read(self, name: str) -> dict[str, Any]:
        """Raises KeyError for a body that is not the one that was written."""
        value = parse_json_object(self._store.read(name), name)
        if value.pop("sha256") != sha256_hex(canonical_json(value)):
            raise KeyError(name)
        return value


def digest_of(scans: Sequence[ScanRecord], parent: Dataset | None) -> str:
    """Of scans in the order of their units, and of what is before them: all that the decision follows from, but for the
    job's configuration.
    """
    there = None if parent is None else parent.manifest.hash
    return sha256_hex(
        canonical_json(
            [there, *([scan.unit, scan.digest, [file.sha256 for file in scan.keys]] for scan in scans)]
        )
    )


def _name(unit: int) -> str:
    return f"{SCAN_DIRECTORY}/{unit:06d}.json"
