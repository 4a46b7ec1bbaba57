"""Anything in a cluster may be killed at any instant: drivers, workers, nodes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.tokenize.executors.cluster import RayCluster
from tests.tokenize.jobs import CommandLine, file_hashes

KILLS = int(os.environ.get("HEADRACE_RAY_KILLS", "2"))


@pytest.mark.slow
@pytest.mark.timeout(120 + 30 * KILLS)
def test_law_4_and_6_kill_9_of_drivers_workers_and_nodes_changes_no_byte(
    longer: CommandLine, whole: dict[str, str], tmp_path: Path, ray_cluster: RayCluster
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    kills = attempt = 0
    while kills < KILLS:
        out = tmp_path / f"out-{attempt}"
        attempt += 1
        while True:
            process = longer.start(out, "--executor", "ray", "--address", ray_cluster.address)
            kills += kill_until_it_ends(process, out, ray_cluster, draw, KILLS - kills)
            _, said = process.communicate()
            if process.returncode != -signal.SIGKILL:
                break
        assert process.returncode == 0, f"seed {seed}: {said}"
        assert file_hashes(out) == whole, f"seed {seed}"


def kill_until_it_ends(
    process: subprocess.Popen[str], out: Path, cluster: RayCluster, draw: random.Random, most: int
) -> int:
    """Kills something now and then, once there is something to lose, `most` times; returns how often."""
    kills = 0
    while process.poll() is None and not (out / "_units" / "job.json").exists():
        time.sleep(0.01)
    while kills < most:
        try:
            process.wait(draw.uniform(0.5, 4.0))
            break
        except subprocess.TimeoutExpired:
            kills += 1
        victim = draw.choice(["driver", "worker", "node"])
        print(f"kills a {victim}")
        if victim == "driver":
            os.killpg(process.pid, signal.SIGKILL)
        elif victim == "worker" and (workers := cluster.workers()):
            os.kill(draw.choice(workers), signal.SIGKILL)
        elif victim == "node":
            node = draw.choice(cluster.nodes)
            cluster.kill_node(node)
            cluster.nodes.remove(node)
            cluster.nodes.append(cluster.add_node())
    return kills
