"""How long does it take to decide what is a duplicate, and in how much memory?

    python -m benchmarks.dedup [--documents 10000000] [--kind exact|near] [--repeated 0.3] [--budget-mb 64]

Writes the keys of made documents, of which some repeat an earlier one (of near duplicates, half a text and half only a
signature, with 6 % of its slots changed), and decides in a process of its own. Without --documents: 10^6 and 10^7, both kinds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.dataeng.storage import Store
from headrace.tokenize.dedup.config import SLOTS, DedupConfig
from headrace.tokenize.dedup.decide import decide
from headrace.tokenize.dedup.journal import ScanJournal, ScanRecord
from headrace.tokenize.dedup.keys import KeysWriter

_UNIT_DOCUMENTS = 100_000


def write_keys(store: Store, num_documents: int, config: DedupConfig, repeated: float) -> None:
    """Document d is made of its number, or of an earlier one's, so that nothing of the corpus is held."""
    draw = np.random.default_rng(0)
    banding = config.banding
    for unit, begin in enumerate(range(0, num_documents, _UNIT_DOCUMENTS)):
        numbers = np.arange(begin, min(begin + _UNIT_DOCUMENTS, num_documents))
        repeats = draw.random(len(numbers)) < repeated
        of = np.where(repeats, draw.integers(0, np.maximum(numbers, 1)), numbers).astype(np.uint64)
        same_text = np.ones(len(numbers), bool) if banding is None else draw.random(len(numbers)) < 0.5
        text_of = np.where(same_text, of, numbers).astype(np.uint64)
        hashes = np.stack([mixed(text_of, 1), mixed(text_of, 2)], axis=1)
        bands = None
        if banding is not None:
            bands = np.stack([mixed(of, 3 + band) for band in range(banding.bands)], axis=1)
            slots = bands.view(np.uint8)
            slots[(draw.random(slots.shape) < 0.06) & ~same_text[:, None]] ^= 1
        writer = KeysWriter(store, unit, 0 if banding is None else banding.bands)
        writer.add(0, numbers - begin, pa.array(hashes.view("V16")[:, 0].tolist(), pa.binary(16)), bands)
        record = ScanRecord(unit=unit, keys=writer.finish(), digest="", counts={}, rejects={})
        ScanJournal(store).write(record)


def mixed(values: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """SplitMix64 of value and salt."""
    x = values * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt << 48)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def measure(root: str, config: DedupConfig, budget: int, answer: Connection) -> None:
    store = Store(root)
    scans = [record for _, record in sorted(ScanJournal(store).records().items())]
    before = resource.getrusage(resource.RUSAGE_SELF)
    begun = time.monotonic()
    decision = decide(store, scans, config, lambda unit, _part: (f"{unit}.parquet", 0), budget=budget)
    seconds = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_SELF)
    drops = decision.drops.values()
    answer.send(
        {
            "duplicates": sum(each.duplicates for each in drops),
            "near_duplicates": sum(each.near_duplicates for each in drops),
            "seconds": seconds,
            "processor_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "peak_mb": peak_mb(),
        }
    )


def peak_mb() -> float:
    """Of this process alone: getrusage goes by its parent's before it was replaced."""
    (line,) = [
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) / 1024


def run(num_documents: int, kind: str, repeated: float, budget: int) -> dict[str, Any]:
    config = DedupConfig(kind=kind)
    with tempfile.TemporaryDirectory() as root:
        write_keys(Store(root), num_documents, config, repeated)
        stored = sum(path.stat().st_size for path in Path(root).rglob("*.keys.parquet"))
        ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
        child = multiprocessing.get_context("spawn").Process(
            target=measure, args=(root, config, budget, theirs)
        )
        child.start()
        theirs.close()
        found: dict[str, Any] = ours.recv()
        child.join()
    return {"key_bytes": stored / num_documents, **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int)
    parser.add_argument("--kind", choices=["exact", "near"])
    parser.add_argument("--repeated", type=float, default=0.3)
    parser.add_argument("--budget-mb", type=int, default=64)
    args = parser.parse_args()
    for num_documents in [args.documents] if args.documents else [10**6, 10**7]:
        for kind in [args.kind] if args.kind else ["exact", "near"]:
            found = run(num_documents, kind, args.repeated, args.budget_mb << 20)
            print(
                f"{kind:5} {num_documents:>12,} documents of {SLOTS} slots: {found['duplicates']:,} duplicates, "
                f"{found['near_duplicates']:,} near; {found['key_bytes']:.0f} bytes of keys a document; "
                f"{found['seconds']:.1f} s ({found['processor_seconds']:.1f} s of a core), peak {found['peak_mb']:,.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
