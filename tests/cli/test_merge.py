from __future__ import annotations

import json
from pathlib import Path

from headrace.dataeng.dataset import Dataset
from tests.cli.conftest import Command
from tests.tokenize.small import publish_small


def test_two_datasets_become_one_and_the_same_command_again_finds_it(
    headrace: Command, tmp_path: Path
) -> None:
    for name in "ab":
        publish_small(tmp_path / name, {name: [300, 0, 5]})
    merge = ("merge", "--out", tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert headrace(*merge) == 0
    assert "6 = 4 documents + 2 rejected" in headrace.out
    assert headrace(*merge, "--json", "--threads", "1") == 0
    told = json.loads(headrace.out)
    assert (told["already_complete"], told["manifest"]) == (
        True,
        Dataset.open(tmp_path / "out").manifest.hash,
    )
    assert headrace("verify", tmp_path / "out") == 0


def test_datasets_that_do_not_go_together_end_with_the_reason(headrace: Command, tmp_path: Path) -> None:
    publish_small(tmp_path / "a", {"a": [300]})
    publish_small(tmp_path / "b", {"b": [300]}, compression="zstd:3")
    assert headrace("merge", "--out", tmp_path / "out", tmp_path / "a", tmp_path / "b") == 2
    assert "compression: there 'none', here 'zstd:3'" in headrace.err
    assert headrace("merge", "--out", tmp_path / "out", tmp_path / "a") == 2
    assert "of two or more" in headrace.err
    assert headrace("merge", "--out", tmp_path / "out", tmp_path / "a", tmp_path / "a", "--threads", "0") == 2
