from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.tokenize.takedown import take_down
from tests.cli.conftest import Command
from tests.tokenize.dying import Died, dying_at
from tests.tokenize.small import publish_small
from tests.tokenize.test_versions import where


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    publish_small(tmp_path / "d", {"a": [300, 5], "b": [200]})
    publish_small(tmp_path / "d", {"c": [400]}, onto=True)
    return tmp_path / "d"


def test_the_versions_are_listed_the_newest_first(headrace: Command, dataset: Path) -> None:
    assert headrace("versions", dataset) == 0
    newest, first = headrace.out.splitlines()
    assert newest.startswith(Dataset.open(dataset).manifest.hash[:16])
    assert "newest        append    4 documents, 905 tokens" in newest
    assert "kept          tokenize  3 documents, 505 tokens" in first
    assert headrace("versions", dataset, "--json") == 0
    told = json.loads(headrace.out)
    assert [version["state"] for version in told] == ["newest", "kept"]
    assert told[0]["parent"] == told[1]["version"]
    # What is listed opens.
    assert headrace("inspect", f"{dataset}@{first[:16]}", "--json") == 0
    assert json.loads(headrace.out)["counts"]["documents"] == 3
    assert headrace("verify", f"{dataset}@{first[:16]}") == 0


def test_old_versions_are_erased_when_asked(headrace: Command, dataset: Path) -> None:
    assert headrace("versions", dataset, "--prune", "old", "--dry-run") == 0
    assert headrace.out == "2 files would go (--dry-run)\n"
    assert headrace("versions", dataset, "--prune", "old", "--json") == 0
    assert len(json.loads(headrace.out)["files"]) == 2
    assert headrace("versions", dataset) == 0
    assert "pruned" in headrace.out
    assert headrace("versions", dataset, "--prune", Dataset.open(dataset).manifest.hash) == 2
    assert "is the newest version" in headrace.err
    assert headrace("versions", dataset, "--dry-run") == 2


def test_an_unfinished_change_is_given_up_when_asked(headrace: Command, dataset: Path) -> None:
    assert headrace("versions", dataset, "--abandon") == 2
    with pytest.raises(Died), dying_at(4):
        take_down(str(dataset), where("tokens = 5"))
    assert headrace("filter", dataset, "--drop", "--where", "tokens = 200") == 2
    assert "is unfinished" in headrace.err
    assert headrace("versions", dataset, "--abandon") == 0
    assert headrace.out == "given up; 2 files of it were removed, the dataset is as it was\n"
    assert headrace("filter", dataset, "--drop", "--where", "tokens = 200") == 0
