from __future__ import annotations

import os
from pathlib import Path

import fsspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.sources import files
from headrace.dataeng.sources.base import Columns, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.errors import InputError
from tests.dataeng.sources.reading import Rows, read_all


def tree(root: Path, **contents: bytes) -> Path:
    """Files below `root`; `__` in a keyword is a slash."""
    for name, data in contents.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def read(*places: Path | str, slice_bytes: int = 1 << 20) -> Rows:
    return read_all(*places, whole_files=True, slice_bytes=slice_bytes)


def test_every_file_is_a_document_whose_id_is_its_path_in_the_order_of_bytes(tmp_path: Path) -> None:
    for name in ["b.py", "a/z.txt", "a.c", "Ä.md", "a/__init__.py", "Z"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    rows = read(tmp_path, slice_bytes=1)
    assert rows.ids == ["Z", "a.c", "a/__init__.py", "a/z.txt", "b.py", "Ä.md"]
    assert rows.texts == [f"text of {name}" for name in rows.ids]


def test_a_glob_takes_some_and_names_them_below_its_fixed_part(tmp_path: Path) -> None:
    tree(tmp_path, src__a=b"a", src__deep__b=b"b", other=b"c")
    assert read(f"{tmp_path}/src/**/[ab]").ids == ["a", "deep/b"]
    assert read(f"{tmp_path}/*").ids == ["other"]


def test_relative_globs_and_single_files_are_found_from_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, a=b"text a", b=b"text b", sub__c=b"text c")
    monkeypatch.chdir(tmp_path)
    assert read("[ab]").ids == ["a", "b"]
    rows = read("sub/c", "b")
    assert (rows.ids, rows.texts) == (["c", "b"], ["text c", "text b"])
    assert [source.name for source in discover(["sub/c"], whole_files=True).sources] == ["sub/c"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t", "blank"),
        (b"caf\xe9", "not_utf8"),
        (b"\xed\xa0\x80", "not_utf8"),
        (b"\x7fELF\2\1\1\0\0", "binary"),
        ("utf-16".encode("utf-16"), "binary"),
        (b"x" * 7_999 + b"\0", "binary"),
    ],
)
def test_a_file_that_is_not_a_document_is_a_reject_with_its_reason(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    rows = read(tree(tmp_path, a=b"good", b=data, c=b"good"))
    assert (rows.texts, rows.rejects) == (["good", "good"], {(None, 1): reason})


def test_a_byte_order_mark_is_taken_off_and_a_late_nul_is_kept(tmp_path: Path) -> None:
    late = "x" * 8_000 + "\0"
    assert read(tree(tmp_path, a=b"\xef\xbb\xbftext", b=late.encode())).texts == ["text", late]


def test_a_name_that_is_not_utf8_is_a_reject(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).write_text("text")
    except OSError:
        pytest.skip("this file system takes no such name")
    tree(tmp_path, a=b"good")
    rows = read(tmp_path)
    assert (rows.texts, rows.rejects) == (["good"], {(None, 1): "not_utf8"})


def test_loops_of_links_fifos_and_hidden_names_are_not_read(tmp_path: Path) -> None:
    tree(tmp_path, a=b"text", deep__b=b"text")
    for name in [".git", "_build"]:
        tree(tmp_path / name, x=b"text")
    (tmp_path / ".hidden").write_text("text")
    (tmp_path / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "fifo")
    assert read(tmp_path).ids == ["a", "deep/b", "link"]


def test_a_file_that_two_places_reach_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, src__a=b"a")
    for other in [f"{tmp_path}/src", f"{tmp_path}/src/*", f"{tmp_path}/src/a"]:
        with pytest.raises(InputError, match=r"src/a: given twice"):
            read(tmp_path, other)


def test_two_globs_of_one_directory_are_two_sources(tmp_path: Path) -> None:
    tree(tmp_path, a=b"text a", b=b"text b")
    assert read(f"{tmp_path}/b*", f"{tmp_path}/a*").ids == ["b", "a"]


@pytest.mark.parametrize("place", ["nothing", "none*", "folder"])
def test_a_place_without_files_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"no such file|matches no file|without files"):
        read(tmp_path / place)


def test_columns_are_not_asked_of_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="leave out --text-column and --id-column"):
        read_all(tree(tmp_path, a=b"x"), whole_files=True, text_column="text")


def test_a_file_that_changed_after_planning_is_refused(tmp_path: Path) -> None:
    found = discover([str(tree(tmp_path, a=b"text"))], whole_files=True)
    for data in [b"longer text", b"no"]:
        tree(tmp_path, a=data)
        with pytest.raises(InputError, match="planned with 4 bytes"):
            list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=50), slice_bytes=st.integers(1, 200))
@settings(max_examples=50)
def test_slices_tile_the_files_in_order(sizes: list[int], slice_bytes: int) -> None:
    found = [(f"{number:03d}", size) for number, size in enumerate(sizes)]
    source = files.probe("tree", found[::-1]).plan(0, Columns(text=""), slice_bytes)
    assert [entry for part in source.slices for entry in part.paths] == found
    assert [part.first_row for part in source.slices] == [int(part.paths[0][0]) for part in source.slices]
    assert source.num_rows == len(sizes)


def test_the_fingerprint_covers_every_name_and_size(tmp_path: Path) -> None:
    def fingerprint(*found: tuple[str, int]) -> str:
        return files.probe("tree", found).plan(0, Columns(text=""), 100).fingerprint

    one = fingerprint(("a", 1), ("b", 2))
    assert one == fingerprint(("b", 2), ("a", 1))
    assert (
        len({one, fingerprint(("a", 2), ("b", 2)), fingerprint(("a", 1), ("c", 2)), fingerprint(("a", 1))})
        == 4
    )


def test_a_tree_in_a_store_is_read_like_a_local_one() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({"/trees/b/c.txt": b"c", "/trees/a.txt": b"a", "/trees/.hidden": b"h"})
    rows = read("memory://trees")
    assert (rows.ids, rows.texts) == (["a.txt", "b/c.txt"], ["a", "c"])
    memory.rm("/trees", recursive=True)
