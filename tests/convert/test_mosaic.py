"""Datasets of the real MDSWriter, in every way in which tokens are put into them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.convert import mosaic
from headrace.convert.mosaic_shard import MosaicShard
from headrace.errors import DamageError, HeadraceError, InputError, UsageError
from tests.convert.files import documents_of, lineage_of, take_in
from tests.convert.readers import read_all

INTEROP = Path(__file__).parents[1] / "interop"

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        importlib.util.find_spec("streaming") is None and "CI" not in os.environ,
        reason="mosaicml-streaming is not installed; `make setup` installs it",
    ),
]


def some_documents(length: int | None = None) -> list[list[int]]:
    random = np.random.default_rng(3)
    lengths = [length or n for n in (1, 2, 255, 256, 300, 1000, 1, 40, 700)]
    return [random.integers(0, 120, n).tolist() for n in lengths]


# name: (columns, column of tokens, dtypes, compression, hashes, documents)
JOBS: dict[str, tuple[dict[str, str], str, list[str], str | None, list[str], list[list[int]]]] = {
    "static": ({"tokens": "ndarray:uint16"}, "tokens", ["uint16"], None, ["sha1", "xxh64"], some_documents()),
    "dynamic": ({"input_ids": "ndarray"}, "input_ids", ["int32", "uint8", "int64"], "zstd:3", [], some_documents()),
    "fixed": ({"tokens": "ndarray:int64:64"}, "tokens", ["int64"], "gz:1", ["md5"], some_documents(64)),
    "foundry": ({"tokens": "bytes"}, "tokens", ["int64"], None, [], some_documents()),
    "mixed": (
        {"id": "int", "attention": "ndarray:uint8", "meta": "pkl", "tokens": "bytes", "url": "str"},
        "tokens",
        ["uint32"],
        "br:1",
        ["sha256"],
        some_documents(),
    ),
    "snappy": ({"tokens": "ndarray:uint32"}, "tokens", ["uint32"], "snappy", [], some_documents()),
    "bz2": ({"tokens": "ndarray:int16"}, "tokens", ["int16"], "bz2:1", [], some_documents()),
}  # fmt: skip
JOBS["mixed"][0].pop("attention")  # the writer would want an array for it


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mds")
    keys = ("columns", "tokens", "dtype", "compression", "hashes", "documents")
    jobs = [dict(zip(keys, job, strict=True)) | {"out": str(root / name)} for name, job in JOBS.items()]
    (root / "jobs.json").write_text(json.dumps(jobs))
    subprocess.run(
        [sys.executable, INTEROP / "write_with_streaming.py", root / "jobs.json"],
        env={**os.environ, "PYTHONPATH": str(INTEROP / "standins"), "TMPDIR": str(root)},
        check=True,
        timeout=120,
    )
    return root


def opened(path: Path, **given: Any) -> list[MosaicShard]:
    return list(mosaic.open_dataset(str(path), 0, **{"column": None, "dtype": None, **given}))


@pytest.mark.parametrize("name", JOBS)
def test_every_way_of_writing_tokens_is_read(name: str, written: Path) -> None:
    given = {"dtype": "uint32"} if name == "mixed" else {}
    shards = opened(written / name, **given)
    assert len(shards) > 1 or name in ("static", "snappy", "bz2", "dynamic", "mixed")
    assert [document for shard in shards for document in read_all(shard)] == JOBS[name][-1]


def test_streams_in_sub_directories_become_one_dataset(written: Path, tmp_path: Path) -> None:
    root = tmp_path / "corpus"
    root.mkdir()
    for stream in ("foundry", "static"):
        (root / stream).symlink_to(written / stream)
    # Links to directories are not followed; each stream is named, or the parent of real ones.
    take_in(tmp_path / "out", root / "foundry", root / "static")
    assert documents_of(tmp_path / "out") == JOBS["foundry"][-1] + JOBS["static"][-1]
    rows = lineage_of(tmp_path / "out")
    assert rows[0]["source"] == str(root / "foundry" / "shard.00000.mds")
    assert rows[0]["byte_offset"] is None
    assert [row["tokens"] for row in rows[-9:]] == [len(document) for document in JOBS["static"][-1]]


def read_every(directory: Path) -> list[list[int]]:
    return [document for shard in opened(directory) for document in read_all(shard)]


def changed(written: Path, tmp_path: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a dataset whose index was changed."""
    directory = tmp_path / name
    directory.mkdir()
    for path in (written / name).iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    index = json.loads((directory / "index.json").read_bytes())
    change(index)
    (directory / "index.json").write_text(json.dumps(index))
    return directory


def of_first(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda index: index["shards"][0].update({key: value})


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("static", lambda i: i["shards"][0]["raw_data"].update(basename="../../secret"), InputError, "plain file name"),
        ("static", lambda i: i["shards"][0]["raw_data"].update(basename="/etc/passwd"), InputError, "plain file name"),
        ("static", of_first("format", "json"), InputError, "only MDS shards"),
        ("static", of_first("column_encodings", ["pkl"]), InputError, "encoded as 'pkl'"),
        ("static", of_first("column_encodings", ["ndarray:float32"]), InputError, "'float32'; token ids are integers"),
        ("static", of_first("column_names", ["text"]), UsageError, r"it has 'text'. Name the one .* --column"),
        ("static", of_first("column_encodings", {"0": "ndarray"}), InputError, "not described as mosaicml-streaming does"),
        ("static", of_first("column_names", {"tokens": 0}), InputError, "not described as mosaicml-streaming does"),
        ("static", of_first("samples", 2**40), InputError, "not described as mosaicml-streaming does"),
        ("static", of_first("samples", 3), DamageError, "samples, its index says 3"),
        ("static", of_first("column_sizes", [5]), InputError, "sample"),
        ("static", of_first("column_sizes", [2**31]), DamageError, "its columns do not fill its bytes"),
        ("static", lambda i: i["shards"][0]["raw_data"]["hashes"].update(sha1="ab" * 20), DamageError, "its sha1 is"),
        ("dynamic", lambda i: i["shards"][0]["raw_data"].update(bytes=100), DamageError, "more than 100 bytes"),
        ("snappy", lambda i: i["shards"][0]["zip_data"].update(bytes=2**40), InputError, "not described as mosaicml-streaming"),
        ("snappy", lambda i: i["shards"][0]["raw_data"].update(bytes=2**31), DamageError, "cannot be unpacked"),
        ("dynamic", of_first("compression", "lzma"), InputError, "compressed by 'lzma'"),
        ("static", lambda i: i.update(shards=[]), InputError, "not an index"),
        ("static", lambda i: i.update(version=3), InputError, "not an index"),
        ("foundry", of_first("column_encodings", ["ndarray:int64"]), InputError, "sample 0: "),
    ],
)  # fmt: skip
def test_what_does_not_hold_together_is_refused_by_name(
    name: str,
    change: Callable[[dict[str, Any]], object],
    error: type[HeadraceError],
    message: str,
    written: Path,
    tmp_path: Path,
) -> None:
    directory = changed(written, tmp_path, name, change)
    with pytest.raises((error, DamageError) if error is InputError else error, match=message) as raised:
        read_every(directory)
    assert str(directory) in str(raised.value)


@pytest.mark.parametrize("name", JOBS)
def test_a_shard_that_is_cut_short_or_altered_is_damage_or_seen_in_its_form(
    name: str, written: Path, tmp_path: Path
) -> None:
    directory = changed(written, tmp_path, name, lambda _: None)
    shard = opened(directory, dtype="uint32" if name == "mixed" else None)[0]
    path = Path(shard.source.uri)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:7], b"", whole + b"x", b"\xff" * len(whole)):
        path.write_bytes(damaged)
        with pytest.raises((DamageError, InputError), match=path.name):
            read_all(shard)


def test_an_index_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="not JSON"):
        opened(tmp_path)
