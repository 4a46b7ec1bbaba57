from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tokenize.executors.cluster import RayCluster
from tests.tokenize.jobs import CommandLine, file_hashes, write_corpus


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """Two nodes with one CPU each."""
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    cluster = RayCluster(2)
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def longer(tmp_path_factory: pytest.TempPathFactory, command: CommandLine) -> CommandLine:
    """A job that takes long enough to be interrupted."""
    return CommandLine(write_corpus(tmp_path_factory.mktemp("longer") / "corpus", 1000), command.tokenizer)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, longer: CommandLine) -> dict[str, str]:
    """The files of the longer job, done by one process."""
    out = tmp_path_factory.mktemp("whole") / "out"
    longer.run(out, "--workers", "1")
    return file_hashes(out)
