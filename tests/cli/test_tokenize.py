from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.tokenize.jobs import write_parquet, write_tfrecord, write_tokenizer


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("inputs")
    write_tokenizer(root / "tokenizer.json")
    (root / "corpus").mkdir()
    write_parquet(root / "corpus" / "a.parquet", [f"document {n}" for n in range(50)])
    write_tfrecord(root / "corpus" / "b.tfrecord", [f"record {n}" for n in range(50)])
    (root / "corpus" / "README.md").write_text("not data")
    return root


def tokenize(inputs: Path, out: Path, *more: str) -> int:
    tokenizer = str(inputs / "tokenizer.json")
    return main(["tokenize", "--out", str(out), "--tokenizer", tokenizer, "--workers", "1", *more])


def test_a_run_shows_its_progress_what_it_passed_over_and_a_table(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tokenize(inputs, tmp_path / "out", str(inputs / "corpus")) == 0
    shown = capsys.readouterr()
    assert "passed over 1 files that are not data" in shown.err
    assert "units=1/1" in shown.err
    assert "100 = 100 documents + 0 rejected" in shown.out
    assert "from 'text'" in shown.out


def test_a_dataset_that_lost_a_file_comes_back_as_the_error_says(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert tokenize(inputs, out, str(inputs / "corpus")) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "shard.000000-000.lineage.parquet").unlink()
    assert tokenize(inputs, out, str(inputs / "corpus")) == 1
    assert "add --repair to the command" in capsys.readouterr().err
    assert tokenize(inputs, out, str(inputs / "corpus"), "--repair") == 0
    assert "repaired shard.000000-000.lineage.parquet" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_json_is_all_of_stdout(inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tokenize(inputs, tmp_path / "out", str(inputs / "corpus"), "--json", "--progress", "none") == 0
    value = json.loads(capsys.readouterr().out)
    assert value["counts"]["documents"] == 100
    assert value["already_complete"] is False
    assert value["ignored_files"] == [str(inputs / "corpus" / "README.md")]


def test_damage_stops_before_any_work_or_is_quarantined_and_counted(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Path(shutil.copytree(inputs / "corpus", tmp_path / "corpus"))
    path = corpus / "b.tfrecord"
    path.write_bytes(path.read_bytes()[:-3])
    assert tokenize(inputs, tmp_path / "out", str(corpus)) == 1
    message = capsys.readouterr().err
    assert f"{path}: record 49 at byte" in message
    assert "--on-damage quarantine" in message
    assert not (tmp_path / "out").exists()
    more = ("--on-damage", "quarantine", "--json")
    assert tokenize(inputs, tmp_path / "out", str(corpus), *more) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["counts"]["documents"], value["rejects"]) == (99, {"damaged": 1})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--workers", "0"], "--workers 0: expected 1 or more"),
        (["--max-rejects", "2"], "expected a fraction from 0 to 1"),
        (["--compression", "gzip"], "expected none, zstd or zstd:1 to zstd:22"),
        (["--compression", "zstd:23"], "expected none, zstd or zstd:1 to zstd:22"),
        (["--shard-bytes", "10"], "expected 1,024 to"),
        (["--shard-bytes", "4G"], "expected 1,024 to"),
        (["--eos", "<nothing>"], "--eos '<nothing>' is not in the vocabulary"),
        (["--text-column", "body"], "no column 'body'"),
        (["--tokenizer", "/nowhere/tokenizer.json"], "/nowhere/tokenizer.json: no such file"),
    ],
)
def test_what_cannot_be_used_is_said_and_exits_with_2(
    inputs: Path, tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tokenize(inputs, tmp_path / "out", str(inputs / "corpus"), *more) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_dataset_should_be_is_a_message(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text("a file")
    assert tokenize(inputs, tmp_path / "out", str(inputs / "corpus")) == 2
    assert "a file is there; give a directory" in capsys.readouterr().err
