"""A plan over 10^6 shards and 10^10 sequences: time to build, memory, and time a sample near and far.

python -m benchmarks.plan [--repeats 7]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import numpy as np

from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource, TokenizerKey
from headrace.kernels.mix import derive_reference

SHARDS, SEQUENCE_LENGTH, BATCH = 10**6, 2048, 1024
BATCHES = 40


def synthetic(name: str, shards: int, weight: float = 1.0) -> PlanSource:
    """A source of shards of about 10,000 sequences each; no files."""
    random = np.random.default_rng(len(name))
    tokens = random.integers(9_000, 11_000, shards) * SEQUENCE_LENGTH + 1
    return PlanSource(
        name=name,
        content_hash=f"{derive_reference(1, len(name)):016x}" * 4,
        tokens=tokens.astype(np.int64),
        tokenizer=TokenizerKey(sha256="0" * 64, vocab_size=65536),
        weight=weight,
    )


def seconds_to_build(sources: list[PlanSource]) -> tuple[float, Plan]:
    began = time.perf_counter()
    plan = Plan.create(sources, sequence_length=SEQUENCE_LENGTH)
    plan.locate([0])  # the first epoch's order is part of being ready
    return time.perf_counter() - began, plan


def microseconds_a_sample(plan: Plan, start: int) -> float:
    ids = np.arange(start, start + BATCH * BATCHES).reshape(BATCHES, BATCH)
    plan.locate(ids[0])
    began = time.perf_counter()
    for batch in ids:
        plan.locate(batch)
    return (time.perf_counter() - began) / ids.size * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    # Compiled once a machine, then read from disk; not what is measured.
    small = [synthetic("a", 10), synthetic("bb", 10, 0.5)]
    Plan.create(small, sequence_length=SEQUENCE_LENGTH).locate(range(BATCH))
    one, three = [synthetic("a", SHARDS)], [synthetic("x" * k, SHARDS // 3, 1 / k) for k in (1, 2, 3)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for label, sources in (("1 source", one), ("3 sources", three)):
        builds = [seconds_to_build(sources) for _ in range(repeats)]
        plan = builds[-1][1]
        print(f"{label}: {SHARDS:,} shards, {int(plan.num_sequences.sum()):,} sequences")
        print(f"  built in {statistics.median(seconds for seconds, _ in builds):.3f} s")
        far = (0, 10**10 - 2 * BATCH * BATCHES, 10**12)
        times: dict[int, list[float]] = {start: [] for start in far}
        for _ in range(repeats):
            for start in far:
                times[start].append(microseconds_a_sample(plan, start))
        for start, found in times.items():
            print(
                f"  locate at {start:>17,}: {statistics.median(found):.3f} us a sample in batches of {BATCH:,}"
            )
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"  peak memory {after / 1024:.0f} MB in all, {(after - before) / 1024:.0f} MB over the shard table"
        )


if __name__ == "__main__":
    main()
