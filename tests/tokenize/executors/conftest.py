from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tokenize.executors.cluster import RayCluster


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Two nodes with one CPU each."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    cluster = RayCluster(2)
    yield cluster
    cluster.close()
