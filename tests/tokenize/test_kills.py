"""kill -9 at random instants, of the whole process group and of single workers: the bytes are those of a job left alone.

HEADRACE_KILLS is how many of them each store gets.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.dataeng.storage import Store
from headrace.manifests.dataset import MANIFEST
from headrace.tokenize.verify import verify
from tests.s3 import S3Server
from tests.tokenize.jobs import (
    CommandLine,
    file_hashes,
    object_hashes,
    write_every_format,
    write_files,
    write_tokenizer,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc, which is Linux"),
]
KILLS_OF_ONE = 5  # at most; then it is left to finish
KILLS = int(os.environ.get("HEADRACE_KILLS", "10"))


class Job:
    """A command line, the bytes it gives, and how long it takes when left alone."""

    def __init__(self, command: CommandLine, expected: Path) -> None:
        self.command = command
        begun = time.monotonic()
        command.run(expected, "--workers", "2")
        self.seconds = time.monotonic() - begun
        self.hashes = file_hashes(expected)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[Job]:
    directory = tmp_path_factory.mktemp("kills")
    tokenizer = write_tokenizer(directory / "tokenizer.json")
    rows = CommandLine(write_every_format(directory / "rows"), tokenizer)
    options = ("--shard-bytes", "4k", "--max-rejects", "0.2", "--documents", "files")
    files = CommandLine(write_files(directory / "files"), tokenizer, options)
    return [Job(rows, directory / "rows-expected"), Job(files, directory / "files-expected")]


def workers_of(process: subprocess.Popen[str]) -> Iterator[int]:
    try:
        found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in map(int, found):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child
    except (FileNotFoundError, ProcessLookupError):
        return


def wait_until_gone(group: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.005)
    raise AssertionError("the process group outlived SIGKILL")


def kill_and_continue(
    jobs: list[Job], new_out: Callable[[], str], hashes: Callable[[str], dict[str, str]]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    kills = dict.fromkeys(("group", "worker", "too late"), 0)
    published = 0

    def exists(out: str) -> bool:
        return Store(out).exists(MANIFEST)

    while kills["group"] + kills["worker"] < KILLS:
        job, out = draw.choice(jobs), new_out()
        for patience in [*(draw.uniform(0, 1.5 * job.seconds) for _ in range(KILLS_OF_ONE)), 120]:
            process = job.command.start(out, "--workers", draw.choice("123"))
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                workers = list(workers_of(process))
                if not workers or draw.random() < 0.6:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    wait_until_gone(process.pid)
                    kills["group"] += 1
                    if exists(out):  # a reader never sees a part
                        assert verify(out).ok, f"seed {seed}"
                else:
                    os.kill(draw.choice(workers), signal.SIGKILL)
                    _, said = process.communicate(timeout=60)
                    assert process.returncode in (0, 3), f"seed {seed}: {said}"
                    assert process.returncode == 0 or "SIGKILL" in said, f"seed {seed}: {said}"
                    wait_until_gone(process.pid)
                    kills["worker" if process.returncode else "too late"] += 1
                    if process.returncode == 0:
                        break
                continue
            _, said = process.communicate()
            assert process.returncode == 0, f"seed {seed}: {said}"
            break
        assert hashes(out) == job.hashes, f"seed {seed}"
        published += 1
    print(f"seed {seed}: {kills}, {published} datasets published")


def test_law_4_and_6_on_a_local_disk(jobs: list[Job], tmp_path: Path) -> None:
    numbers = iter(range(1 << 30))
    kill_and_continue(jobs, lambda: str(tmp_path / f"{next(numbers)}"), lambda out: file_hashes(Path(out)))


@pytest.mark.s3
def test_law_4_and_6_on_an_object_store(jobs: list[Job], s3_server: S3Server, s3_bucket: str) -> None:
    numbers = iter(range(1 << 30))
    kill_and_continue(jobs, lambda: f"{s3_bucket}/{next(numbers)}", lambda out: object_hashes(s3_server, out))
