"""An order over the same 10^8 samples in 10^4 shards, by headrace and by mosaicml-streaming 0.13, in turns.

    python -m benchmarks.order_peer [--repeats 3]

Each build is a process of its own, so that peak memory is its own. What is timed for the peer is what its
StreamingDataset does at the start of an epoch and again at a restart: `get_partitions` and `get_shuffle` with their
defaults, then the lookup of all ids. What is timed for headrace is building the plan and locating the first batch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

SAMPLES, SHARDS = 10**8, 10**4

_MEASURED = """
import json, resource, sys, time
import numpy as np
shard_sizes = np.full({shards}, {samples} // {shards}, np.int64)
{prepare}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
{build}
seconds = time.perf_counter() - began
print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""

_PEER = (
    "from streaming.base.partition import get_partitions\nfrom streaming.base.shuffle import get_shuffle",
    (
        "ids = get_partitions('relaxed', {samples}, 64, 1, 8, 1, 8, 0, 1)\n"
        "shuffled = get_shuffle('py1e', shard_sizes, 64, 9176, 0)\n"
        "np.where(ids != -1, shuffled[ids], -1)"
    ),
)
_OURS = (
    (
        "from headrace.dataeng.plan import Plan\nfrom headrace.dataeng.source import PlanSource, TokenizerKey\n"
        "tokenizer = TokenizerKey(sha256='0' * 64, vocab_size=9)\n"
        "def plan(sizes):\n"
        "    source = PlanSource(name='a', content_hash='1' * 64, tokens=sizes * 2048 + 1, tokenizer=tokenizer)\n"
        "    return Plan.create([source], sequence_length=2048)\n"
        "plan(shard_sizes[:2]).locate(range(64))  # reads the compiled kernels"
    ),
    "plan(shard_sizes).locate(range(64))",
)


def measure(code: tuple[str, str]) -> tuple[float, float]:
    """(seconds, megabytes over the interpreter and its imports) of one build in a new process."""
    sizes = {"samples": SAMPLES, "shards": SHARDS}
    script = _MEASURED.format(prepare=code[0], build=code[1].format(**sizes), **sizes)
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root), str(root / "tests" / "interop" / "standins")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return seconds, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    found: dict[str, list[tuple[float, float]]] = {"headrace": [], "mosaicml-streaming": []}
    for _ in range(parser.parse_args().repeats):
        found["headrace"].append(measure(_OURS))
        found["mosaicml-streaming"].append(measure(_PEER))
    print(f"an order over {SAMPLES:,} samples in {SHARDS:,} shards")
    for name, results in found.items():
        seconds = statistics.median(s for s, _ in results)
        megabytes = statistics.median(m for _, m in results)
        print(f"  {name:<20} {seconds:9.4f} s  {megabytes:8.0f} MB")


if __name__ == "__main__":
    main()
