"""Between the passes: from the scans of all units to what the tokenizer has to know of each."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.errors import IncompleteError
from headrace.tokenize.dedup.config import DedupConfig
from headrace.tokenize.dedup.decide import decide
from headrace.tokenize.dedup.drops import Scanned
from headrace.tokenize.dedup.journal import Decision, ScanJournal, ScanRecord, digest_of
from headrace.tokenize.dedup.keys import is_kept
from headrace.tokenize.units import Unit


def find_duplicates(
    store: Store,
    units: Sequence[Unit],
    sources: Sequence[SourceFile],
    config: DedupConfig,
    scans: Sequence[ScanRecord],
    parent: Dataset | None,
) -> Decision:
    """Decides, from the scans of all units in order, and what is there before them. Raises as `decide`."""
    by_number = {unit.index: unit for unit in units}

    def name_of(unit: int, part: int) -> tuple[str, int | None]:
        found = by_number[unit].slices[part]
        return sources[found.file].name, found.row_group

    return decide(store, scans, config, name_of, parent=parent)


def told(scans: Sequence[ScanRecord], decision: Decision) -> dict[int, Scanned]:
    """What the tokenizer has to know, by unit."""
    return {scan.unit: Scanned(digest=scan.digest, drops=decision.drops.get(scan.unit)) for scan in scans}


def decided(store: Store, units: Sequence[Unit], parent: Dataset | None) -> dict[int, Scanned]:
    """What others have found.

    Raises:
        IncompleteError: a unit is not scanned, or it is not decided what is a duplicate.
    """
    scans = all_scans(store, units)
    decision = ScanJournal(store).decision(digest_of(scans, parent))
    if decision is None or not all(
        is_kept(store, each.name, each.sha256) for each in decision.drops.values()
    ):
        raise IncompleteError(
            f"{store.describe()}: all units are scanned, but it is not decided yet what is a duplicate: run the command "
            "once with --finish --scan, and then this one again"
        )
    return told(scans, decision)


def all_scans(store: Store, units: Sequence[Unit]) -> list[ScanRecord]:
    """The scans that others made, in the order of the units. Raises IncompleteError if one is missing."""
    found = ScanJournal(store).records()
    missing = [unit.index for unit in units if unit.index not in found]
    if missing:
        shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        raise IncompleteError(
            f"{store.describe()}: duplicates are looked for in the whole corpus before any of it is tokenized, and "
            f"{len(missing):,} of {len(units):,} units are not scanned ({shown}). Run the shares with --shard-of i/n --scan "
            "(unit u belongs to the share u modulo n), once --finish --scan, and then this command again"
        )
    return [found[unit.index] for unit in units]
