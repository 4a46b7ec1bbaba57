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
    assert "run its `headrace tokenize` command again" in shown
    assert main(["verify", str(dataset), "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] is False
    assert [entry["document_id"] for entry in value["problems"][0]["documents"]] == ["a-19"]


def test_no_threads_are_refused(dataset: Path) -> None:
    assert main(["verify", str(dataset), "--threads", "0"]) == 2


def test_no_dataset_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "nowhere")]) == 2
    assert "manifest.json" in capsys.readouterr().err
