from __future__ import annotations

import json

import pytest

from headrace.cli.main import main
from tests.tokenize.jobs import CommandLine, write_parquet, write_tokenizer


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("inspect")
    (root / "corpus").mkdir()
    write_parquet(root / "corpus" / "a.parquet", [f"document {n}" for n in range(20)] + [None])
    command = CommandLine(root / "corpus", write_tokenizer(root / "tokenizer.json"))
    command.run(root / "dataset")
    return str(root / "dataset")


def test_the_summary_names_sources_lengths_and_rejects(
    dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", dataset]) == 0
    shown = capsys.readouterr().out
    for words in (
        "21 = 20 documents + 1 rejected",
        "1 null",
        "a.parquet",
        "documents by tokens",
        "'<|endoftext|>'",
    ):
        assert words in shown


def test_json_has_the_same(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", dataset, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["counts"]["documents"] == 20
    assert sum(entry["documents"] for entry in value["lengths"]["histogram"]) == 20


@pytest.mark.parametrize("which", [["--document", "a-7"], ["--number", "7"]])
def test_one_document_is_decoded_with_where_it_came_from(
    dataset: str, which: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", dataset, *which]) == 0
    shown = capsys.readouterr().out
    assert "\n\ndocument 7<|endoftext|>\n" in shown
    assert "document_id a-7" in shown
    assert main(["inspect", dataset, *which, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "document 7<|endoftext|>"


def test_an_unknown_document_is_2(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", dataset, "--document", "nobody"]) == 2
    assert "values of the column 'id'" in capsys.readouterr().err
