from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataeng.sources import parquet as parquet_source
from headrace.dataeng.sources.base import Columns
from headrace.dataeng.sources.discover import _expand, discover
from headrace.dataeng.sources.tfrecord import TFRecordWriter
from headrace.errors import InputError


def parquet(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"text": ["x"]}), path)
    return path


def tfrecord(path: Path, **features: bytes | str | int) -> Path:
    with path.open("wb") as file, TFRecordWriter(file) as writer:
        writer.write(features or {"text": "x"})
    return path


def names(*places: Path | str) -> list[str]:
    return [Path(source.name).name for source in discover([str(p) for p in places]).sources]


def test_arguments_keep_their_order_and_directories_and_globs_are_sorted(tmp_path: Path) -> None:
    for name in ["b.parquet", "a.parquet", "deep/c.parquet"]:
        parquet(tmp_path / "one" / name)
    parquet(tmp_path / "z.parquet")
    parquet(tmp_path / "g2.pq")
    tfrecord(tmp_path / "g1.tfrecord")
    expected = ["z.parquet", "a.parquet", "b.parquet", "c.parquet", "g1.tfrecord", "g2.pq"]
    assert names(tmp_path / "z.parquet", tmp_path / "one", tmp_path / "g*") == expected


def test_names_are_recorded_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path / "one" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    for place in ["one", "one/", "one/*.parquet", "one/a.parquet"]:
        assert [source.name for source in discover([place]).sources] == ["one/a.parquet"]


def test_law_5_one_file_under_two_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = parquet(tmp_path / "one" / "a.parquet")
    (tmp_path / "link.parquet").symlink_to(file)
    monkeypatch.chdir(tmp_path)
    for other in [
        "one",
        "one/a.parquet",
        "./one/a.parquet",
        str(file),
        file.as_uri(),
        "one/../one",
        "link.parquet",
    ]:
        with pytest.raises(InputError, match="given twice"):
            discover(["one", other])


def test_a_directory_of_very_many_files_is_sorted_out_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"d/{number:06d}.{suffix}" for number in range(20_000) for suffix in ("parquet", "md")]
    monkeypatch.setattr("headrace.dataeng.sources.discover.list_directory", lambda _: sorted(names))
    began = time.monotonic()
    found, ignored = _expand(["d"])
    assert time.monotonic() - began < 10
    assert (len(found), len(ignored)) == (20_000, 20_000)


def test_a_probe_keeps_little_of_a_large_footer(tmp_path: Path) -> None:
    """Ten thousand files are probed before the first is read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: ["x"] * 1000 for name in ["text", *"abcdefghi"]}), path, row_group_size=1)
    probe = parquet_source.probe(str(path), path.stat().st_size)
    assert len(pickle.dumps(probe)) < path.stat().st_size / 10
    assert sum(part.num_rows or 0 for part in probe.plan(0, Columns(text="text"), 1).slices) == 1000


def test_files_that_are_not_data_are_passed_over_and_said_and_markers_are_not(tmp_path: Path) -> None:
    parquet(tmp_path / "part-00000")
    tfrecord(tmp_path / "part-00001-of-00002")
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "LICENSE").write_text("do")
    for marker in ["_SUCCESS", ".part.crc", "_temporary/x.parquet"]:
        (tmp_path / marker).parent.mkdir(exist_ok=True)
        (tmp_path / marker).write_bytes(b"")
    found = discover([str(tmp_path)])
    assert [Path(s.name).name for s in found.sources] == ["part-00000", "part-00001-of-00002"]
    assert [Path(name).name for name in found.ignored] == ["LICENSE", "README.md"]


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    good = parquet(tmp_path / "good.parquet").read_bytes()
    bad = {
        "cut.parquet": (good[: len(good) // 2], "does not end as it"),
        "empty.parquet": (b"", "zero bytes"),
        "xml.parquet": (b"<?xml version='1.0'?><Error/>", "XML or HTML"),
        "zipped.parquet": (
            gzip.compress(good),
            "a Parquet file inside gzip; it is read by parts, so decompress it",
        ),
        "zipped.tfrecord.gz": (gzip.compress(b"x"), "gzip data with bytes that begin 78"),
        "empty.jsonl.gz": (b"", "zero bytes"),
        "cut.jsonl.gz": (gzip.compress(b'{"text": "x"}')[:12], "ends inside a member, at byte 12"),
        "array.json": (b'[{"text": "x"}]', "JSON, but not an object"),
        "boxed.jsonl": (b"BZh9", "bzip2 data"),
        "noise.tfrecord": (bytes(range(7, 60)), "bytes that begin 07 08"),
        "other.parquet": (tfrecord(tmp_path / "t").read_bytes(), "a TFRecord file; rename it"),
        "other.tfrecord": (good, "a Parquet file; rename it"),
        "locked.parquet": (b"PARE" + good[4:-4] + b"PARE", "encrypted"),
        "claims.parquet": (good[:-8] + b"\xff\xff\xff\x7f" + b"PAR1", "the footer claims 2,147,483,647"),
    }
    for name, (data, _) in bad.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        discover([str(tmp_path / name) for name in bad])
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{len(bad)} sources cannot be read:"
    for name, (_, problem) in bad.items():
        (line,) = (line for line in lines if f"/{name}: " in line)
        assert problem in line


@pytest.mark.parametrize("place", ["nothing.parquet", "none*.parquet", "folder"])
def test_a_place_without_data_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"no such file|matches no file|without Parquet"):
        discover([str(tmp_path / place)])


def test_the_text_column_is_the_first_known_name(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", content=["x"], body=["y"], id=[1])
    assert discover([str(path)]).columns.text == "content"


def test_without_a_known_name_the_candidates_are_listed(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", story=["x"], url=["y"], n=[1])
    with pytest.raises(InputError, match=r"--text-column: one of 'story', 'url' .*'n' \(integer\)"):
        discover([str(path)])
    assert discover([str(path)], text_column="story").columns.text == "story"


def test_schema_conflicts_between_files_are_all_named_before_any_row_is_read(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", text=["x"], id=["i"])
    parquet(tmp_path / "b.parquet", text=[1], id=["i"])
    parquet(tmp_path / "c.parquet", id=["i"], text=["reordered"])
    parquet(tmp_path / "d.parquet", text=[["list"]], id=["i"])
    parquet(tmp_path / "e.parquet", text=["x"], id=[5])
    tfrecord(tmp_path / "f.tfrecord", id="i", body="x")
    with pytest.raises(InputError) as caught:
        discover([str(tmp_path)], id_column="id")
    message = str(caught.value)
    assert "b.parquet: column 'text' is integer" in message
    assert "d.parquet: column 'text' is list" in message
    assert "e.parquet: the id column 'id' is integer, in other files text" in message
    assert "f.tfrecord: no column 'text'; it has 'id' (text), 'body' (text)" in message
    assert "c.parquet" not in message


def test_json_in_a_directory_is_data_if_its_first_line_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"text": "x"}\n{"text": "y"}\n')
    (tmp_path / "part-00000").write_text('{"text": "x"}\n')
    (tmp_path / "about.json").write_text('{\n "version": 1\n}\n')
    (tmp_path / "list.json").write_text('["a"]\n')
    found = discover([str(tmp_path)])
    assert [Path(s.name).name for s in found.sources] == ["data.json", "part-00000"]
    assert [Path(name).name for name in found.ignored] == ["about.json", "list.json"]


def test_a_description_of_the_data_beside_it_does_not_stop_a_directory(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["x"]}), tmp_path / "data.parquet")
    (tmp_path / "dataset_info.json").write_text(
        '{"description": "of the data", "features": {"text": {}}}\n{}\n'
    )
    (tmp_path / "about.json").write_text('{"text": "of the data"}\n')
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.json").write_text('{"text": "alone in its folder"}\n')
    (tmp_path / "two.json").write_text('{"text": "y"}\n{"text": "z"}\n')
    found = discover([str(tmp_path)])
    assert [Path(s.name).name for s in found.sources] == ["data.parquet", "one.json", "two.json"]
    assert [Path(name).name for name in found.ignored] == ["about.json", "dataset_info.json"]


def test_compression_is_told_by_its_first_bytes_whatever_the_name(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.jsonl.gz", tmp_path / "packed.jsonl"
    plain.write_bytes(b'{"text": "x"}\n')
    packed.write_bytes(gzip.compress(b'{"text": "x"}\n'))
    assert [source.codec for source in discover([str(plain), str(packed)]).sources] == [None, "gzip"]


def test_a_missing_id_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'url' for the id"):
        discover([str(parquet(tmp_path / "a.parquet"))], id_column="url")


def test_a_name_that_two_columns_share_is_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="a name that two columns share"):
        discover([str(tmp_path / "a.parquet")], text_column="text")


def test_a_column_with_a_dot_in_its_name_is_a_column(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", **{"a.b": ["x"]})
    assert discover([str(path)], text_column="a.b").sources[0].num_rows == 1


def test_credentials_in_a_uri_are_never_repeated() -> None:
    with pytest.raises(InputError) as caught:
        discover(["memory://user:secret@bucket/none.parquet?token=secret"])
    assert "secret" not in str(caught.value)


def test_any_fsspec_uri_is_read_like_a_path(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/corpus/b.parquet", parquet(tmp_path / "b.parquet").read_bytes())
    memory.pipe("/corpus/a.tfrecord", tfrecord(tmp_path / "a.tfrecord").read_bytes())
    expected = ["memory://corpus/a.tfrecord", "memory://corpus/b.parquet"]
    assert [s.name for s in discover(["memory://corpus"]).sources] == expected
    assert [s.name.replace(":///", "://") for s in discover(["memory://corpus/*.*"]).sources] == expected
    memory.rm("/corpus", recursive=True)


def test_a_column_name_of_megabytes_is_not_repeated_whole(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", **{"x" * 1_000_000: ["x"]})
    with pytest.raises(InputError, match="--text-column: one of 'xxx") as caught:
        discover([str(path)])
    assert len(str(caught.value)) < 1_000


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such a name themselves")
def test_a_name_that_no_file_of_ours_could_hold_is_refused(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.tfrecord")
    Path(path).touch()
    for place in (path, str(tmp_path)):
        with pytest.raises(InputError, match=r"caf.udce9\.tfrecord': a name that is not UTF-8"):
            discover([place])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere file names are Unicode in any locale")
def test_a_locale_that_reads_names_otherwise_is_told_of_and_changes_no_name(tmp_path: Path) -> None:
    parquet(tmp_path / "é.parquet", text=["x"])
    look = "import sys; from headrace.dataeng.sources.discover import discover; discover(sys.argv[1:])"
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", look, str(tmp_path)],
        env={**os.environ, **locale},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "InputError" in done.stderr
    assert "read file names as ascii" in done.stderr
    assert "PYTHONUTF8=1" in done.stderr
