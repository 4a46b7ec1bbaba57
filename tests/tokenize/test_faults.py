"""What networks and stores do to requests changes no byte of what is published, and a store that lies is noticed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.dataeng import remote
from headrace.dataeng.remote_file import opened
from headrace.dataeng.storage import Store
from headrace.errors import InputError
from tests.s3 import S3Server
from tests.s3_faults import KINDS, Faults, Rule, serve
from tests.tokenize.jobs import CommandLine, file_hashes, object_hashes, write_every_format

pytestmark = [pytest.mark.s3, pytest.mark.timeout(600)]
ROUNDS = int(os.environ.get("HEADRACE_FAULT_ROUNDS", "1"))


@pytest.fixture
def faults() -> Faults:
    return Faults(seed=random.SystemRandom().randrange(2**32))


@pytest.fixture
def behind(
    s3_server: S3Server, s3_bucket: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An empty prefix of the bucket; this process and its children reach it through the proxy."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # clients of this process that know another test's endpoint
    with serve(s3_server, faults) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield s3_bucket


def upload(server: S3Server, directory: Path, uri: str) -> None:
    for path in directory.iterdir():
        server.filesystem().put_file(str(path), f"{uri}/{path.name}".removeprefix("s3://"))


def test_faults_of_every_kind_on_a_tenth_of_all_requests_change_no_byte(
    behind: str, faults: Faults, s3_server: S3Server, tokenizer_file: Path, tmp_path: Path
) -> None:
    upload(s3_server, write_every_format(tmp_path / "corpus"), f"{behind}/corpus")
    job = CommandLine(f"{behind}/corpus", tokenizer_file)
    job.run(tmp_path / "expected")
    faults.rules = [Rule(share=0.1)]
    for number in range(ROUNDS):
        out = f"{behind}/out-{number}"
        done = job.run(out, "--workers", "2")
        assert "360 = " in done.stdout, f"seed {faults.seed}"
        assert object_hashes(s3_server, out) == file_hashes(tmp_path / "expected"), f"seed {faults.seed}"
        assert s3_server.secret_key not in done.stdout + done.stderr
    print(f"seed {faults.seed}: {faults.requests} requests, {dict(faults.met)}")
    assert sum(faults.met[kind] for kind in KINDS) > 0.05 * faults.requests


@pytest.mark.parametrize("kind", ["503", "reset", "cut", "half", "slow", "flip"])
def test_a_file_is_read_right_whatever_befalls_a_quarter_of_the_requests(
    behind: str, faults: Faults, s3_server: S3Server, kind: str
) -> None:
    data = random.Random(1).randbytes(3_000_000)
    s3_server.filesystem().pipe_file(f"{behind}/object".removeprefix("s3://"), data)
    faults.rules = [Rule(faults=[kind], share=1, method="GET", count=2), Rule(faults=[kind], share=0.25)]
    with opened(f"{behind}/object") as file:
        file.seek(2_000_000)
        assert file.read(10) == data[2_000_000:2_000_010]
        file.seek(0)
        assert b"".join(iter(lambda: file.read(100_000), b"")) == data
    assert Store(behind).read("object") == data
    assert faults.met[kind], f"seed {faults.seed}"


@pytest.mark.parametrize("size", [10, 110 << 20], ids=["one put", "in parts"])
def test_a_write_whose_answer_is_lost_is_whole_and_a_creation_knows_that_it_was_its_own(
    behind: str, faults: Faults, size: int
) -> None:
    data = b"x" * size
    store = Store(behind)
    assert store.create("first", b"")  # the store was tried out
    faults.rules = [
        Rule(faults=["lost"], share=1, method="PUT", path=r"x-id=PutObject|/(written|created)$", count=2),
        Rule(faults=["lost"], share=1, method="POST", path="uploadId=", count=2),
    ]
    store.write("written", data)
    assert store.create("created", data)
    assert not store.create("created", b"y")
    assert faults.met["lost"] >= 2
    assert store.read("written") == store.read("created") == data


def test_a_store_that_ignores_conditions_is_noticed_before_anything_is_written(
    behind: str, faults: Faults, s3_server: S3Server, command: CommandLine
) -> None:
    filesystem = s3_server.filesystem()

    def forget(method: str, path: str, headers: dict[str, str]) -> None:
        """The condition is signed, so that it cannot be taken out: what it would find is taken away instead."""
        if method == "PUT" and "if-none-match" in headers and filesystem.exists(path.lstrip("/")):
            filesystem.rm_file(path.lstrip("/"))

    faults.before = forget
    refused = command.run(f"{behind}/out", code=2)
    assert "does not keep to the conditions" in refused.stderr
    assert "local directory" in refused.stderr
    assert Store(f"{behind}/out").list() == []


def test_a_store_that_fails_is_not_one_without_the_file(
    behind: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PATIENCE_S", 0.0)
    store = Store(behind)
    store.write("a", b"a")
    assert (store.exists("a"), store.exists("b")) == (True, False)
    faults.gone = True
    with pytest.raises(InputError, match="/a: the store answered with an error"):
        store.exists("a")


def test_a_store_that_goes_away_ends_the_job_in_bounded_time_and_the_same_command_continues(
    behind: str,
    faults: Faults,
    s3_server: S3Server,
    command: CommandLine,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_STORE_PATIENCE_S", "2")
    shards: list[str] = []

    def go_away(method: str, path: str, headers: dict[str, str]) -> None:
        if method == "PUT" and path.endswith(".mds"):
            shards.append(path)
            faults.gone = len(shards) > 3

    faults.before = go_away
    begun = time.monotonic()
    failed = command.run(f"{behind}/out", "--workers", "2", code=2)
    assert time.monotonic() - begun < 90
    assert "the store answered with an error (" in failed.stderr
    assert "run the same command again to continue" in failed.stderr
    assert "rows were read = " in failed.stderr
    assert "Traceback" not in failed.stderr
    faults.before, faults.gone = None, False
    command.run(f"{behind}/out", "--workers", "2")
    assert object_hashes(s3_server, f"{behind}/out") == file_hashes(finished)
