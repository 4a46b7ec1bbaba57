"""The loader on a hot local dataset against a copy of the same output, one thread, in turns.

python -m benchmarks.loader [--repeats 7]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from headrace.dataeng.loader import Loader
from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource
from tests.datasets import write_dataset

SEQUENCE_LENGTH, BATCH, STEPS = 2048, 64, 60


def loader_rate(plan: Plan, threads: int) -> float:
    """Tokens a second, shards already mapped."""
    with Loader(plan, global_batch_size=BATCH, threads=threads, num_steps=STEPS + 20) as loader:
        for _ in range(20):
            next(loader)
        began = time.perf_counter()
        for _ in loader:
            pass
        return STEPS * BATCH * SEQUENCE_LENGTH / (time.perf_counter() - began)


def copy_rate() -> float:
    """Tokens a second of only writing inputs, labels and positions (int64) somewhere."""
    source = np.ones((3, BATCH, SEQUENCE_LENGTH), np.int64)
    began = time.perf_counter()
    for _ in range(STEPS):
        source.copy()
    return STEPS * BATCH * SEQUENCE_LENGTH / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        shards = [
            [random.integers(0, 50_000, random.integers(50, 3000)).tolist() for _ in range(700)]
            for _ in range(8)
        ]
        root = write_dataset(Path(directory) / "d", shards, vocab_size=50_000)
        plan = Plan.create([PlanSource.open(root)], sequence_length=SEQUENCE_LENGTH)
        found: dict[str, list[float]] = {"copy": [], "0 threads": [], "2 threads": []}
        for _ in range(repeats):
            found["copy"].append(copy_rate())
            found["0 threads"].append(loader_rate(plan, 0))
            found["2 threads"].append(loader_rate(plan, 2))
    copied = statistics.median(found["copy"])
    for label, rates in found.items():
        rate = statistics.median(rates)
        print(f"{label:<10} {rate / 1e6:8.0f} Mtok/s  {rate / copied:5.2f} of a copy of the output")


if __name__ == "__main__":
    main()
