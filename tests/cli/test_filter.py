from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from tests.cli.conftest import Command
from tests.tokenize.small import publish_small


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    publish_small(tmp_path / "d", {"a": [300, 0, 5], "b\x1b[31m": [200, 5]})
    return tmp_path / "d"


def test_what_goes_is_told_by_source_before_and_after(headrace: Command, dataset: Path) -> None:
    options = (dataset, "--drop", "--where", "tokens < 10")
    assert headrace("filter", *options, "--dry-run") == 0
    assert headrace.out == (
        "2 of 4 documents would go: 10 tokens, from 2 of 2 shards\n"
        "               1  a\n               1  b\\x1b[31m\nnothing was changed (--dry-run)\n"
    )
    parent = Dataset.open(dataset).manifest.hash
    assert headrace("filter", *options) == 0
    assert "2 of 4 documents are gone" in headrace.out
    assert "5 = 2 documents + 3 rejected" in headrace.out
    assert f"parent     {parent}" in headrace.out
    assert "--prune` erases it" in headrace.out
    assert headrace("filter", *options, "--json") == 0
    told = json.loads(headrace.out)
    assert (told["already_complete"], told["manifest"]) == (True, Dataset.open(dataset).manifest.hash)


def test_of_a_list_what_is_in_no_document_is_told(headrace: Command, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("a-0\nelsewhere\n")
    assert (
        headrace("filter", dataset, "--drop", "--documents-from", tmp_path / "ids", "--dry-run", "--json")
        == 0
    )
    told = json.loads(headrace.out)
    assert told["documents_by_source"] == {"a": 1}
    assert told["not_found"] == [{"document_id": "elsewhere"}]
    assert headrace("filter", dataset, "--keep", "--documents-from", tmp_path / "ids") == 0
    assert "no document has {'document_id': 'elsewhere'}" in headrace.err
    assert Dataset.open(dataset).manifest.counts.documents == 1


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--drop", "--where", "tokens >"], 2, "--where, character 9: expected an integer"),
        (["--drop", "--where", "tokens > 1000"], 2, "none of the 4 documents would go"),
        (["--drop", "--where", "tokens > 0"], 1, "all 4 documents would go"),
        (["--drop", "--documents-from", "absent.txt"], 2, "absent.txt"),
        (["--drop", "--where", "tokens = 5", "--threads", "0"], 2, "--threads 0"),
    ],
)
def test_what_cannot_be_done_ends_with_its_code_and_reason(
    options: list[str], code: int, message: str, headrace: Command, dataset: Path
) -> None:
    assert headrace("filter", dataset, *options) == code
    assert message in headrace.err


def test_what_is_to_go_has_to_be_said_one_way(headrace: Command, dataset: Path) -> None:
    for options in (["--drop"], ["--where", "tokens = 5"], ["--drop", "--keep", "--where", "tokens = 5"]):
        with pytest.raises(SystemExit, match="2"):
            headrace("filter", dataset, *options)
