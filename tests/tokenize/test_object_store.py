"""The same job on an object store: the same names, the same bytes, whatever kills it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.s3 import S3Server
from tests.tokenize.jobs import CommandLine, file_hashes, object_hashes

pytestmark = [pytest.mark.s3, pytest.mark.timeout(400)]


def test_sources_on_s3_are_read_and_no_credential_is_written(
    command: CommandLine, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    filesystem = s3_server.filesystem()
    for path in Path(command.corpus).iterdir():
        filesystem.put_file(str(path), f"{s3_bucket}/corpus/{path.name}".removeprefix("s3://"))
    out = tmp_path / "out"
    remote = CommandLine(f"{s3_bucket}/corpus", command.tokenizer)
    done = remote.run(out, "--workers", "2")
    assert "480 = " in done.stdout
    assert file_hashes(out)
    for path in out.iterdir():
        assert s3_server.secret_key.encode() not in path.read_bytes()


def test_the_same_job_started_twice_on_s3_ends_well_for_both(
    command: CommandLine, finished: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    """No lock is to be had there. Both write the same bytes, and whoever is slower finds the other's dataset."""
    out = f"{s3_bucket}/dataset"
    both = [command.start(out, "--workers", workers) for workers in "12"]
    for process in both:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert object_hashes(s3_server, out) == file_hashes(finished)
