"""The documents of a unit that are not tokenized: a Parquet file, in order.

    part, row          the slice in the unit, and the row
    near               whether the text is nearly, and not exactly, that of an earlier document
    original_source, original_row_group, original_row

The last three name that document, as lineage would.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.dataeng.lineage import encode_table, text_hashes
from headrace.dataeng.rejects import ORIGINALS
from headrace.dataeng.storage import Store
from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import canonical_json, sha256_hex
from headrace.manifests.parquet import read_table
from headrace.tokenize.dedup.config import DUPLICATE, NEAR_DUPLICATE
from headrace.tokenize.dedup.journal import UnitDrops
from headrace.tokenize.dedup.keys import DocumentsDigest
from headrace.tokenize.filters.chain import take
from headrace.tokenize.journal import SCAN_DIRECTORY
from headrace.tokenize.reading import Group, Reading

SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("near", pa.bool_(), nullable=False),
        *ORIGINALS,
    ]
)


class ChangedSinceScan(InputError):
    """A unit gives other documents than when it was scanned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scanned:
    """What the tokenizer is told of a unit: the digest of the documents that it has to meet, and which it drops, if any."""

    digest: str
    drops: UnitDrops | None

    @property
    def identity(self) -> str:
        """Enters the record of the tokenized unit: another scan or another decision, and the unit is done again."""
        return sha256_hex(canonical_json([self.digest, None if self.drops is None else self.drops.sha256]))


def write_drops(store: Store, unit: int, columns: dict[str, Any]) -> UnitDrops:
    """Stores the drops of a unit; columns: as in SCHEMA."""
    data = encode_table(pa.table(columns, SCHEMA))
    name = f"{SCAN_DIRECTORY}/{unit:06d}.drops.parquet"
    store.write(name, data)
    near = int(np.count_nonzero(columns["near"]))
    return UnitDrops(
        unit=unit,
        name=name,
        sha256=sha256_hex(data),
        duplicates=len(columns["near"]) - near,
        near_duplicates=near,
    )


def read_drops(store: Store, drops: UnitDrops) -> Any:
    """The drops of a unit as a pyarrow Table with SCHEMA.

    Raises:
        DamageError: they are not what was stored.
    """
    try:
        data = store.read(drops.name)
    except FileNotFoundError:
        data = b""
    if sha256_hex(data) != drops.sha256:
        raise DamageError(
            f"{store.describe(drops.name)}: not the file that was stored; run the same command again, which decides anew "
            "what is a duplicate"
        )
    return read_table(data).cast(SCHEMA)


class Drops:
    """The drops of one unit, to be asked slice by slice."""

    def __init__(self, store: Store, scanned: Scanned) -> None:
        self.digest = scanned.digest
        table = SCHEMA.empty_table() if scanned.drops is None else read_drops(store, scanned.drops)
        columns = {name: table.column(name).to_numpy() for name in ("part", "row", "near")}
        self._parts: NDArray[np.int32] = columns["part"]
        self._rows: NDArray[np.int64] = columns["row"]
        self._near: NDArray[np.bool_] = columns["near"]
        self._originals = table.select(ORIGINALS.names)

    def leave_out(self, reading: Reading) -> Iterator[Group]:
        """The groups of `reading` without what is dropped, which it notes as rejects.

        Raises:
            ChangedSinceScan: at the end, if there were other documents than were scanned.
        """
        digest, begun = DocumentsDigest(), set[int]()
        for group in reading.groups():
            group = replace(group, text_hash=text_hashes(group.texts))
            digest.add(group.number, group.rows, group.text_hash)
            dropped, at = self._among(group.number, group.rows)
            for reason, near in ((DUPLICATE, False), (NEAR_DUPLICATE, True)):
                some = dropped & (self._near[at] == near) if dropped.any() else dropped
                if some.any():
                    offsets = None if group.byte_offsets is None else group.byte_offsets[some]
                    originals = self._originals.take(pa.array(at[some]))
                    reading.reject(group.number, group.part, group.rows[some], offsets, reason, originals)
            if not dropped.all():
                yield replace(_only(group, ~dropped), first=group.part.file not in begun)
                begun.add(group.part.file)
        if digest.hexdigest() != self.digest:
            raise ChangedSinceScan("other documents than were scanned")

    def _among(self, part: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which of some rows of a slice are dropped, and where in the table each of those is."""
        begin, end = np.searchsorted(self._parts, [part, part + 1]).tolist()
        if begin == end:
            return np.zeros(len(rows), bool), np.zeros(len(rows), np.int64)
        at = np.minimum(begin + np.searchsorted(self._rows[begin:end], rows), end - 1)
        return self._rows[at] == rows, at


def _only(group: Group, wanted: NDArray[np.bool_]) -> Group:
    if wanted.all():
        return group
    positions = np.flatnonzero(wanted)
    return replace(
        group,
        rows=group.rows[positions],
        texts=take(group.texts, positions),
        ids=None if group.ids is None else take(group.ids, positions),
        byte_offsets=None if group.byte_offsets is None else group.byte_offsets[positions],
        text_hash=take(group.text_hash, positions),
    )
