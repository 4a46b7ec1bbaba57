from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.main import main
from tests.tokenize.jobs import CommandLine, write_parquet, write_tokenizer


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    write_parquet(tmp_path / "corpus" / "a.parquet", [f"document {n}" for n in range(20)])
    command = CommandLine(tmp_path / "corpus", write_tokenizer(tmp_path / "tokenizer.json"))
    command.run(tmp_path / "dataset")
    return tmp_path / "dataset"


def test_intact_is_0_and_damage_is_1_and_says_which_document(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(dataset)]) == 0
    assert "intact: 1 shards, 20 documents" in capsys.readouterr().out
    shard = dataset / "shard.000000-000.mds"
    shard.write_bytes(shard.read_bytes()[:-4] + b"\x40\0\0\0")
    assert main(["verify", str(dataset)]) == 1
    shown = capsys.readouterr().out
    assert "shard.000000-000.mds: SHA-256" in shown
    assert "document 19 id 'a-19'" in shown
    assert "row group 1, row 3" in shown
    assert "add --repair to its command" in shown
    assert main(["verify", str(dataset), "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] is False
    assert [entry["document_id"] for entry in value["problems"][0]["documents"]] == ["a-19"]


def test_a_state_is_kept_while_something_is_wrong(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    (dataset / "index.json").rename(tmp_path / "index.json")
    assert main(["verify", str(dataset), "--state", str(state)]) == 1
    (tmp_path / "index.json").rename(dataset / "index.json")
    assert main(["verify", str(dataset), "--state", str(state)]) == 0
    assert "1 shards found intact by an earlier run" in capsys.readouterr().out
    assert not state.exists()
    state.write_text("shopping list")
    assert main(["verify", str(dataset), "--state", str(state)]) == 2
    assert "left alone" in capsys.readouterr().err


def test_names_that_would_move_the_cursor_are_spelt_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    write_parquet(tmp_path / "corpus" / "a\x1b[2J.parquet", [f"document {n}" for n in range(20)])
    command = CommandLine(tmp_path / "corpus", write_tokenizer(tmp_path / "tokenizer.json"))
    command.run(tmp_path / "dataset")
    (tmp_path / "dataset" / "shard.000000-000.mds").unlink()
    assert main(["verify", str(tmp_path / "dataset")]) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "a\\x1b[2J.parquet" in shown


def test_no_threads_are_refused(dataset: Path) -> None:
    assert main(["verify", str(dataset), "--threads", "0"]) == 2


def test_no_dataset_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "nowhere")]) == 2
    assert "manifest.json" in capsys.readouterr().err
