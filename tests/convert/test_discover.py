from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headrace.convert.discover import Chosen, _leaders, find
from headrace.convert.flat import Every
from headrace.errors import InputError
from tests.convert.files import write_datatrove, write_megatron

RAW = Chosen(dtype="uint16", borders=Every(1))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of each, some below, and what goes with them."""
    (tmp_path / "below").mkdir()
    write_megatron(tmp_path / "m", [[1]], "uint16")
    write_datatrove(tmp_path / "below" / "t.ds", [[1]], 2)
    np.save(tmp_path / "below" / "a.npy", np.ones(1, np.uint8))
    (tmp_path / "raw.bin").write_bytes(b"\1\0")
    (tmp_path / "README.md").write_text("not tokens")
    return tmp_path


def found(*places: str | Path) -> list[tuple[str, str]]:
    sources = [file.source for file in find([str(place) for place in places], RAW)]
    assert [part.file for source in sources for part in source.slices] == list(range(len(sources)))
    return [(Path(source.name).name, source.format) for source in sources]


def test_a_directory_gives_every_file_of_tokens_once_by_name(tree: Path) -> None:
    assert found(tree) == [("a.npy", "npy"), ("t.ds", "datatrove"), ("m.bin", "megatron"), ("raw.bin", "raw")]


def test_globs_and_single_files_are_taken_in_the_order_given(tree: Path) -> None:
    assert found(tree / "raw.bin", tree / "*.idx", tree / "below" / "*") == [
        ("raw.bin", "raw"),
        ("m.bin", "megatron"),
        ("a.npy", "npy"),
        ("t.ds", "datatrove"),
    ]


@pytest.mark.parametrize("ending", ["", ".bin", ".idx"])
def test_a_megatron_dataset_is_named_by_its_prefix_or_either_file(ending: str, tree: Path) -> None:
    assert found(f"{tree}/m{ending}") == [("m.bin", "megatron")]


def test_a_name_with_a_star_is_a_file_if_it_is_there(tree: Path) -> None:
    (tree / "a*.bin").write_bytes(b"\1\0")
    assert found(tree / "a*.bin") == [("a*.bin", "raw")]


def test_an_index_under_another_name_and_an_archive_are_not_taken_for_tokens(tree: Path) -> None:
    (tree / "m.idx").rename(tree / "m.index")
    with pytest.raises(InputError, match=r"not called \.idx"):
        found(tree / "m.index")
    np.savez(tree / "a.npz", np.ones(3))
    with pytest.raises(InputError, match=r"unzip a\.npz"):
        found(tree / "a.npz")


def test_an_index_is_for_all_that_lies_below_it() -> None:
    merged = ["c/index.json", "c/one/index.json", "c/one/shard.0.mds", "c/two/index.json", "c/two/extra.bin"]
    assert list(_leaders(merged)) == ["c/index.json"]
    streams = ["c/one/index.json", "c/one/shard.0.mds", "c/t.bin", "c/t.idx", "c/two/index.json", "c/u.bin"]
    assert list(_leaders(streams)) == ["c/one/index.json", "c/t.idx", "c/two/index.json", "c/u.bin"]
