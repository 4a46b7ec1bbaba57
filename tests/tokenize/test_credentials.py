"""No secret is written or said: not in a file of the dataset, of the journal, on stdout or stderr, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.s3 import S3Server
from tests.tokenize.jobs import CommandLine

pytestmark = pytest.mark.s3
SECRET = "TOPSECRET"


def assert_nowhere(secrets: list[str], directory: Path, *said: str) -> None:
    for secret in secrets:
        assert all(secret not in words for words in said)
        for path in directory.rglob("*"):
            assert secret not in str(path)
            if path.is_file():
                assert secret.encode() not in path.read_bytes(), path


def test_signed_urls_and_keys_of_the_environment_leave_no_trace(
    command: CommandLine, s3_server: S3Server, s3_bucket: str, tmp_path: Path
) -> None:
    filesystem, root = s3_server.filesystem(), s3_bucket.removeprefix("s3://")
    for path in [*Path(command.corpus).iterdir(), command.tokenizer]:
        filesystem.put_file(str(path), f"{root}/{path.name}")
    signed = [filesystem.sign(f"{root}/{name}") for name in ("a.parquet", "tokenizer.json")]
    secrets = [s3_server.secret_key, "Signature=", signed[0].partition("?")[2]]
    assert all("Signature=" in url for url in signed)
    job = CommandLine(signed[0], Path("tokenizer.json"))
    arguments = ("--tokenizer", signed[1], f"{s3_bucket}/[bc].*")
    over = job.run(tmp_path / "out", "--max-rejects", "0", *arguments, code=1)  # the journal stays
    assert ".parquet: row group 0, row 0: " in over.stderr
    assert_nowhere(secrets, tmp_path / "out", over.stdout, over.stderr)
    done = job.run(tmp_path / "out", *arguments)
    assert "360 = " in done.stdout
    assert_nowhere(secrets, tmp_path / "out", done.stdout, done.stderr)


@pytest.mark.parametrize(
    "place",
    [
        "s3://key:TOPSECRET@bucket/a.parquet",
        "http://user:TOPSECRET@127.0.0.1:9/a.parquet?X-Amz-Signature=TOPSECRET",
        "zip://a.parquet::http://user:TOPSECRET@127.0.0.1:9/x.zip?sig=TOPSECRET",
        "nosuch://user:TOPSECRET@host/a",
    ],
)
def test_a_place_that_cannot_be_read_is_named_without_its_secrets(
    command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("HEADRACE_STORE_PATIENCE_S", "0")
    for out, source in ((str(tmp_path / "out"), place), (place, str(command.corpus))):
        failed = CommandLine(source, command.tokenizer).run(out, code=2)
        assert_nowhere([SECRET], tmp_path, failed.stdout, failed.stderr)


def test_a_wrong_key_is_refused_without_being_repeated(
    command: CommandLine, s3_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    failed = command.run(f"{s3_bucket}/out", code=2)
    assert "Permission denied" in failed.stderr or "PermissionError" in failed.stderr
    assert SECRET not in failed.stderr
