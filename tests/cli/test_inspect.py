from __future__ import annotations

import json
from pathlib import Path

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
        "4.76%  null",
        "1 : 1.00 of raw shards",
        "median ",
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


def test_a_sample_is_shown_with_where_each_document_came_from(
    dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", dataset, "--sample", "3", "--seed", "1"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("a.parquet") == 3
    assert main(["inspect", dataset, "--sample", "3", "--seed", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told) == 3
    assert all(document["text"] in shown for document in told)


def test_a_document_cannot_do_anything_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus").mkdir()
    write_parquet(tmp_path / "corpus" / "a.parquet", ["tab\there\nand \x1b]0;owned\x07 there\r" + "x" * 3000])
    CommandLine(tmp_path / "corpus", write_tokenizer(tmp_path / "tokenizer.json")).run(tmp_path / "dataset")
    assert main(["inspect", str(tmp_path / "dataset"), "--sample", "1"]) == 0
    shown = capsys.readouterr().out
    assert "tab\there\nand \\x1b]0;owned\\x07 there\\rxxx" in shown
    assert "more characters (--number 0 shows all)" in shown


def test_a_page_is_written_where_it_was_asked_for(
    dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "card.html"
    assert main(["inspect", dataset, "--html", str(page), "--title", "Mill <1>"]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    assert "<h1>Mill &lt;1&gt;</h1>" in page.read_text()
    assert page.read_text().count("<article>") == 5


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--sample", "-1"], "--sample -1: expected 0 or more"),
        (["--sources", "-1"], "--sources -1: expected 0 or more"),
        (["--title", "x"], "give both"),
        (["--html", "x.html", "--json"], "leave out --document"),
    ],
)
def test_what_makes_no_sense_is_2(
    dataset: str, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", dataset, *more]) == 2
    assert message in capsys.readouterr().err
