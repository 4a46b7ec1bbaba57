from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cli.main import main
from headrace.convert import megatron
from headrace.convert.megatron_out import export_megatron, megatron_dtype
from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, IncompleteError, UsageError
from tests.convert.files import megatron_index
from tests.convert.readers import read_all
from tests.datasets import random_documents, write_dataset

SHARDS = [random_documents(1, 20), random_documents(2, 7), [[5]]]
FLAT = [document for shard in SHARDS for document in shard]


def files(prefix: Path) -> tuple[bytes, bytes]:
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


def wanted(documents: list[list[int]], dtype: str) -> tuple[bytes, bytes]:
    tokens = np.array(
        [token for document in documents for token in document], np.dtype(dtype).newbyteorder("<")
    )
    return tokens.tobytes(), megatron_index([len(document) for document in documents], dtype)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_files_are_those_of_megatrons_own_builder(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/convert/files.py writes as it does; docs/converters.md says when both were compared with the real one."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    dataset = Dataset.open(write_dataset(tmp_path / "in", SHARDS, compression=compression))
    told = export_megatron(dataset, str(tmp_path / "out" / "m"))
    assert files(tmp_path / "out" / "m") == wanted(FLAT, "uint16")
    assert (told.documents, told.tokens, told.dtype) == (28, sum(map(len, FLAT)), "uint16")
    assert told.bytes == sum(map(len, files(tmp_path / "out" / "m")))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["m.bin", "m.idx"]


@pytest.mark.parametrize(
    ("vocab_size", "dtype"), [(65499, "uint16"), (65500, "int32"), (65536, "int32"), (200_000, "int32")]
)
def test_ids_are_of_the_type_that_megatron_chooses(vocab_size: int, dtype: str, tmp_path: Path) -> None:
    assert megatron_dtype(vocab_size) == dtype
    ours = "uint16" if vocab_size <= 65536 else "uint32"
    root = write_dataset(tmp_path / "in", SHARDS, vocab_size=vocab_size, dtype=ours)
    export_megatron(Dataset.open(root), str(tmp_path / "m"))
    assert files(tmp_path / "m") == wanted(FLAT, dtype)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 999), min_size=1, max_size=300), min_size=1), min_size=1, max_size=4
    )
)
def test_what_is_exported_is_read_again_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, shards: list[list[list[int]]]
) -> None:
    here = tmp_path_factory.mktemp("one")
    export_megatron(Dataset.open(write_dataset(here / "in", shards)), str(here / "m"))
    assert read_all(megatron.open_file(str(here / "m"), 0)) == [
        document for shard in shards for document in shard
    ]


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    dataset = Dataset.open(write_dataset(tmp_path / "in", SHARDS))
    for name in ("m.bin", "m.idx"):
        (tmp_path / name).write_text("someone's data")
        with pytest.raises(UsageError, match="is there already; nothing was changed"):
            export_megatron(dataset, str(tmp_path / "m"))
        assert (tmp_path / name).read_text() == "someone's data"
        (tmp_path / name).unlink()
    assert not [path for path in tmp_path.iterdir() if path.name != "in"]


KILLED = """
import os, sys
real, count = os.{call}, 0
def die(*arguments):
    global count
    count += 1
    if count == {at}:
        os.kill(os.getpid(), 9)
    return real(*arguments)
os.{call} = die
from headrace.cli.main import main
main(["export", "--format", "megatron", "--out", sys.argv[1], sys.argv[2]])
"""


@pytest.mark.parametrize(
    ("call", "at"), [("fsync", 1), ("fsync", 2), ("replace", 1), ("replace", 2), ("fsync", 4)]
)
def test_a_killed_export_leaves_nothing_whole_and_the_same_command_ends_well(
    call: str, at: int, tmp_path: Path
) -> None:
    root = write_dataset(tmp_path / "in", SHARDS)
    out = tmp_path / "out" / "m"
    command = [sys.executable, "-c", KILLED.format(call=call, at=at), str(out), str(root)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -9
    if not out.with_suffix(".idx").exists():
        export_megatron(Dataset.open(root), str(out))
    assert files(out) == wanted(FLAT, "uint16")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["m.bin", "m.idx"]


def test_a_damaged_shard_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "in", SHARDS)
    shard = root / "shard.000001-000.mds"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    with pytest.raises(DamageError, match=r"shard\.000001-000"):
        export_megatron(Dataset.open(root), str(tmp_path / "out" / "m"))
    assert not list((tmp_path / "out").iterdir())


def test_two_exports_to_one_name_are_told_apart(tmp_path: Path) -> None:
    dataset = Dataset.open(write_dataset(tmp_path / "in", SHARDS))
    with open(tmp_path / ".tmp-export-m.idx", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(IncompleteError, match="another process is exporting"):
            export_megatron(dataset, str(tmp_path / "m"))


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_dataset(tmp_path / "in", SHARDS)
    command = ["export", "--format", "megatron", str(root), "--out"]
    assert main([*command, str(tmp_path / "a.idx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"] == 28
    assert main([*command, str(tmp_path / "b")]) == 0
    assert "28 documents" in capsys.readouterr().out
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert main([*command, f"file://{tmp_path}/by uri"]) == 0
    assert (tmp_path / "by uri.idx").exists()
    assert main([*command, "s3://bucket/m"]) == 2
    assert "copy the two files" in capsys.readouterr().err
