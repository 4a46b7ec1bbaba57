"""The server of tests/s3.py behaves where headrace's promises lean on it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import pytest

from headrace.dataeng.storage import Store
from tests.s3 import S3Server, free_ports

pytestmark = pytest.mark.s3


def test_an_object_written_through_the_environment_reads_back(s3_bucket: str) -> None:
    filesystem, root = fsspec.core.url_to_fs(s3_bucket)
    filesystem.pipe_file(f"{root}/a/b.bin", bytes(range(256)))
    assert filesystem.cat_file(f"{root}/a/b.bin", start=10, end=20) == bytes(range(10, 20))
    assert not filesystem.exists(f"{root}/a/c.bin")


def test_a_store_reads_what_another_store_wrote(s3_bucket: str) -> None:
    Store(s3_bucket).write("deep/er/name.json", b"{}")
    other = Store(s3_bucket)
    assert other.read("deep/er/name.json") == b"{}"
    assert other.list() == ["deep/er/name.json"]


def test_a_wrong_secret_is_refused(s3_server: S3Server) -> None:
    wrong = S3Server(endpoint=s3_server.endpoint, access_key=s3_server.access_key, secret_key="not it")
    with pytest.raises(PermissionError):
        wrong.filesystem().ls("headrace-tests")


def test_the_server_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the kernel's parent-death signal is Linux only")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.s3 import serve\n"
        "with serve(Path(sys.argv[1])) as server:\n    print(server.endpoint, flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert child.stdout is not None
    port = int(child.stdout.readline().rpartition(":")[2])
    assert not _is_free(port)
    child.kill()
    child.wait(timeout=10)
    child.stdout.close()
    deadline = time.monotonic() + 10
    while not _is_free(port):
        assert time.monotonic() < deadline, "the server outlived its starter by ten seconds"
        time.sleep(0.05)


def test_free_ports_are_different() -> None:
    ports = free_ports(16)
    assert len(set(ports)) == 16


def _is_free(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        answer = probe.connect_ex(("127.0.0.1", port))
    assert answer in (0, errno.ECONNREFUSED), os.strerror(answer)
    return answer != 0
