"""A job done in shares, at the same time or one after another, is the job done at once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace.errors import UsageError
from headrace.tokenize.config import Share
from tests.tokenize.jobs import CommandLine, file_hashes


def test_law_4_shares_at_the_same_time_give_the_bytes_of_one_job(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    running = [command.start(out, "--shard-of", f"{i}/3", "--workers", "1") for i in range(3)]
    for job in running:
        _, errors = job.communicate(timeout=120)
        assert job.returncode == 0, errors
    assert not (out / "manifest.json").exists()
    command.run(out, "--finish")
    assert file_hashes(out) == file_hashes(finished)
    # All over: a share that a scheduler runs again has nothing to do, and so has a second finish.
    assert "all of its" in command.run(out, "--shard-of", "1/3").stdout
    assert "already complete" in command.run(out, "--finish").stdout
    assert file_hashes(out) == file_hashes(finished)


def test_a_missing_share_is_named_and_nothing_is_published(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    assert "units are not done" in command.run(out, "--finish", code=75).stderr
    command.run(out, "--shard-of", "1/2")
    refused = command.run(out, "--finish", code=75).stderr
    assert "(0, 2, 4" in refused
    assert not (out / "manifest.json").exists()
    command.run(out)  # neither option: does what is left
    assert file_hashes(out) == file_hashes(finished)


def test_finishing_too_early_takes_no_file_from_a_share_at_work(command: CommandLine, tmp_path: Path) -> None:
    """On a network file system the lock may hold only on one machine; what a share is writing has a temporary name."""
    out = tmp_path / "dataset"
    command.run(out, "--shard-of", "0/2")
    (out / ".tmp-0123-shard.000001-000.mds").write_bytes(b"half")
    command.run(out, "--finish", code=75)
    assert (out / ".tmp-0123-shard.000001-000.mds").exists()


def test_law_4_killed_shares_leave_nothing_that_another_share_or_the_end_minds(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    draw = random.Random(11)
    for _ in range(4):
        running = [command.start(out, "--shard-of", f"{i}/2", "--workers", "1") for i in range(2)]
        time.sleep(draw.uniform(0.3, 1.2))
        running[draw.randrange(2)].kill()
        for job in running:
            job.communicate(timeout=120)
    for i in range(2):
        command.run(out, "--shard-of", f"{i}/2")
    command.run(out, "--finish")
    assert file_hashes(out) == file_hashes(finished)


def test_a_whole_job_waits_its_turn_while_a_share_is_at_work(command: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    share = command.start(out, "--shard-of", "0/1", "--workers", "1")
    while not (out / "_units" / "job.json").exists():
        assert share.poll() is None
        time.sleep(0.01)
    assert "for all shares to end" in command.run(out, code=75).stderr
    share.communicate(timeout=120)
    assert share.returncode == 0


def test_a_share_of_another_job_is_refused(command: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    command.run(out, "--shard-of", "0/2")
    assert (
        "holds another tokenization" in command.run(out, "--shard-of", "1/2", "--eos", "none", code=2).stderr
    )


@pytest.mark.parametrize("text", ["", "1", "3/3", "-1/3", "1/0", "a/b", "1/2/3", "0/99999999"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected i/n"):
        Share.parse(text)


def test_shares_are_disjoint_and_cover_every_unit() -> None:
    shares = [Share.parse(f"{i}/5") for i in range(5)]
    assert all(sum(share.has(unit) for share in shares) == 1 for unit in range(100))
