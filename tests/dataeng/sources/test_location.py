from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataeng import remote
from headrace.dataeng.sources.base import read_slice
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.sources.location import expand_glob, list_directory, open_input, read_list
from headrace.errors import InputError, MissingExtra


def test_a_directory_is_listed_sorted_below_itself_without_hidden_names(tmp_path: Path) -> None:
    for name in ["b", "a/c", "_tmp/x", ".hidden", "a/_x"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list_directory(f"{tmp_path}/") == [f"{tmp_path}/a/c", f"{tmp_path}/b"]
    assert list_directory(str(tmp_path / "b")) is None


def test_a_glob_is_sorted_and_has_only_files(tmp_path: Path) -> None:
    (tmp_path / "dir.x").mkdir()
    for name in ["b.x", "a.x"]:
        (tmp_path / name).write_text("x")
    assert expand_glob(f"{tmp_path}/*.x") == [f"{tmp_path}/a.x", f"{tmp_path}/b.x"]


def test_a_missing_file_and_an_unknown_scheme_are_said_plainly() -> None:
    with pytest.raises(InputError, match="/nowhere/x: no such file"):
        open_input("/nowhere/x")
    with pytest.raises((InputError, MissingExtra), match=r"zzz://|opened"):
        open_input("zzz://bucket/x")


def test_a_store_that_fails_while_a_file_is_read_is_not_damage_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"text": ["x" * 1000] * 100}), tmp_path / "a.parquet", use_dictionary=False)
    memory = fsspec.filesystem("memory")
    memory.pipe("/fails/a.parquet", (tmp_path / "a.parquet").read_bytes())
    found = discover(["memory://fails/a.parquet"])

    def failing(self: Any, path: str, **options: Any) -> Any:
        raise OSError("https://user:secret@host reset the connection")

    monkeypatch.setattr(type(memory), "cat_file", failing)
    monkeypatch.setattr(remote, "PATIENCE_S", 0.0)
    with pytest.raises(InputError, match="the store failed while it was read") as caught:
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))
    assert "secret" not in str(caught.value)
    memory.rm("/fails", recursive=True)


def test_a_list_of_sources_is_its_lines_without_blank_ones(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbfa.parquet\r\n\n  b c/*.jsonl \n# not a comment\n")
    assert read_list(str(path)) == ["a.parquet", "b c/*.jsonl", "# not a comment"]
    path.write_bytes("one\u2028name.jsonl\r\n \t\r\n other\u00a0\n".encode())
    assert read_list(str(path)) == ["one\u2028name.jsonl", "other\u00a0"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "without a source"),
        (b"\n \n", "without a source"),
        (b"PAR1\0\0", "not a list"),
        (b"\xff", "not a list"),
    ],
)
def test_what_is_not_a_list_of_sources_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"list\.txt: .*{problem}"):
        read_list(str(path))
