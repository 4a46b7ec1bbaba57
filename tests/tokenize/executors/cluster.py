"""A Ray cluster of several nodes on this machine. Each node is a raylet with its own resources; one can be killed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

# Before Ray is imported, here and in what it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

ROOT = Path(__file__).parents[3]


class RayCluster:
    """Nodes with one CPU each; the head has none, so that it only leads."""

    def __init__(self, num_nodes: int) -> None:
        from ray.cluster_utils import Cluster

        # Workers find headrace and these tests as the driver does.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._cluster = Cluster()
        self.scratch = Path(mkdtemp(prefix="headrace-ray-", dir="/tmp"))  # sockets have short names
        self._options: dict[str, Any] = {
            "object_store_memory": 80 << 20,
            "include_dashboard": False,
            "temp_dir": str(self.scratch),
        }
        self._cluster.add_node(num_cpus=0, **self._options)
        self.nodes = [self.add_node() for _ in range(num_nodes)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def add_node(self) -> Any:
        return self._cluster.add_node(num_cpus=1, wait=True, **self._options)

    def kill_node(self, node: Any) -> None:
        """SIGKILL to all of its processes."""
        self._cluster.remove_node(node, allow_graceful=False)

    def workers(self) -> list[int]:
        """The processes of its actors, of whatever job."""
        found = subprocess.run(
            ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
        )
        lines = [line.split(maxsplit=2) for line in found.stdout.splitlines()[1:]]
        raylets = {pid for pid, _, command in lines if "/raylet " in command and str(self.scratch) in command}
        return [
            int(pid) for pid, parent, command in lines if parent in raylets and "ray::RayWorker" in command
        ]

    def close(self) -> None:
        self._cluster.shutdown()
        rmtree(self.scratch, ignore_errors=True)
