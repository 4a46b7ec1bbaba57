import dataclasses
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

from headrace.dataeng.cache import NodeCache, default_cache_dir, file_sha256
from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError
from headrace.manifests.shard_table import ShardRow
from tests.datasets import random_documents, write_dataset
from tests.tokenize.small import publish_small


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", [random_documents(s, 40) for s in range(3)], compression="zstd")


def cached_files(cache: Path) -> list[str]:
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and not p.name.endswith(".lock"))


def names_of(root: Path) -> list[str]:
    return sorted(f"{row.raw_sha256}.mds" for row in Dataset.open(root).shards.rows())


def test_a_local_raw_dataset_is_read_in_place(tmp_path: Path) -> None:
    dataset = Dataset.open(write_dataset(tmp_path / "d", [[[1, 2]]]))
    cache = NodeCache(dataset, tmp_path / "cache")
    assert cache.path(dataset.shards.row(0)) == tmp_path / "d" / "shard.000000-000.mds"
    assert not (tmp_path / "cache").exists()


def test_a_compressed_shard_is_unpacked_once_and_found_again(root: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(root)
    row = dataset.shards.row(1)
    first, second = NodeCache(dataset, tmp_path / "c"), NodeCache(dataset, tmp_path / "c")
    path = first.path(row)
    assert file_sha256(path) == row.raw_sha256
    assert second.path(row) == path
    assert (first.bytes_fetched, second.bytes_fetched) == (row.stored_bytes, 0)


def test_of_a_new_version_only_what_is_new_is_fetched(tmp_path: Path) -> None:
    publish_small(tmp_path / "d", {"a": [300, 5], "b": [200]}, compression="zstd:3")
    assert _read_all(str(tmp_path / "d"), str(tmp_path / "c")) > 0
    publish_small(tmp_path / "d", {"c": [400]}, onto=True, compression="zstd:3")
    newest = Dataset.open(tmp_path / "d").shards.rows()
    assert _read_all(str(tmp_path / "d"), str(tmp_path / "c")) == newest[-1].stored_bytes
    assert len(cached_files(tmp_path / "c")) == 3


def test_law_7_a_damaged_cached_shard_is_fetched_again(root: Path, tmp_path: Path) -> None:
    """Case B13: one byte, and a cut."""
    dataset = Dataset.open(root)
    row = dataset.shards.row(0)
    path = NodeCache(dataset, tmp_path / "c").path(row)
    good = path.read_bytes()
    for damaged in (good[:-5], good[:50] + bytes([good[50] ^ 1]) + good[51:], b""):
        path.write_bytes(damaged)
        assert NodeCache(dataset, tmp_path / "c").path(row).read_bytes() == good


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_shard_is_hashed_once_a_process_unless_its_file_was_touched(
    tmp_path: Path, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Dataset.open(write_dataset(tmp_path / "d", [random_documents(1, 40)], compression=compression))
    hashed: list[Path] = []

    def counted(path: Path) -> str:
        hashed.append(path)
        return file_sha256(path)

    monkeypatch.setattr("headrace.dataeng.cache.file_sha256", counted)
    cache, row = NodeCache(dataset, tmp_path / "c"), dataset.shards.row(0)
    path = cache.path(row)
    first = len(hashed)
    assert cache.path(row) == path
    assert len(hashed) == first
    damaged = bytearray(path.read_bytes())
    damaged[30] ^= 1
    path.write_bytes(damaged)
    if compression == "none":
        with pytest.raises(DamageError):
            cache.path(row)
    else:
        assert file_sha256(cache.path(row)) == row.raw_sha256


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_law_7_damage_at_rest_is_refused_by_name(tmp_path: Path, compression: str) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(1, 40)], compression=compression)
    dataset = Dataset.open(root)
    row = dataset.shards.row(0)
    stored = root / row.name
    data = bytearray(stored.read_bytes())
    data[len(data) // 2] ^= 1
    stored.write_bytes(data)
    with pytest.raises(DamageError, match=rf"{row.name}: SHA-256 .*{row.tokens:,} tokens.*{row.lineage}"):
        NodeCache(dataset, tmp_path / "c").path(row)
    stored.write_bytes(data[:-1])
    with pytest.raises(DamageError, match="bytes, the manifest says"):
        NodeCache(dataset, tmp_path / "c").path(row)
    stored.unlink()
    with pytest.raises(DamageError, match="missing"):
        NodeCache(dataset, tmp_path / "c").path(row)
    assert cached_files(tmp_path / "c") == []


def _read_all(root: str, cache: str) -> int:
    dataset = Dataset.open(root)
    node = NodeCache(dataset, Path(cache))
    for row in dataset.shards.rows():
        node.path(row)
    return node.bytes_fetched


def test_processes_of_a_node_fetch_each_shard_once(root: Path, tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        fetched = pool.starmap(_read_all, [(str(root), str(tmp_path / "c"))] * 6)
    assert sum(fetched) == sum(row.stored_bytes for row in Dataset.open(root).shards.rows())
    assert cached_files(tmp_path / "c") == names_of(root)


_KILLED_READER = """
import sys, time
from headrace.dataeng import storage
slow = storage.Store.download
def download(self, name, path):
    slow(self, name, path)
    with open(path, "r+b") as file:  # half a shard, and the process stands still while it holds the lock
        file.truncate(10)
    print("half", flush=True)
    time.sleep(60)
storage.Store.download = download
from tests.dataeng.test_cache import _read_all
_read_all(sys.argv[1], sys.argv[2])
"""


def test_a_reader_killed_half_way_leaves_nothing_in_the_way(root: Path, tmp_path: Path) -> None:
    """Case B6: no lock is stale and no half file is taken for a shard."""
    reader = subprocess.Popen(
        [sys.executable, "-c", _KILLED_READER, str(root), str(tmp_path / "c")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "half\n"
    os.kill(reader.pid, signal.SIGKILL)
    reader.wait()
    reader.stdout.close()
    began = time.monotonic()
    _read_all(str(root), str(tmp_path / "c"))
    assert time.monotonic() - began < 30
    assert cached_files(tmp_path / "c") == names_of(root)


def test_a_bomb_is_stopped_at_the_size_the_manifest_states(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(1, 40)], compression="zstd")
    dataset = Dataset.open(root)
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(1 << 30))
    (root / dataset.shards.row(0).name).write_bytes(bomb)
    row = dataclasses.replace(
        dataset.shards.row(0),
        stored_bytes=len(bomb),
        stored_sha256=file_sha256(root / dataset.shards.row(0).name),
    )
    with pytest.raises(DamageError, match="unpacks to more than"):
        NodeCache(dataset, tmp_path / "c").path(row)
    assert cached_files(tmp_path / "c") == []


def test_the_cache_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", "/somewhere")
    assert default_cache_dir() == Path("/somewhere")
    monkeypatch.delenv("HEADRACE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_cache_dir() == Path("/xdg/headrace")


def test_a_cache_that_is_removed_while_it_is_filled_is_filled_again(root: Path, tmp_path: Path) -> None:
    class Swept(NodeCache):
        removals = 0

        def _fetch(self, row: ShardRow, path: Path) -> None:
            if self.removals < 2:
                self.removals += 1
                shutil.rmtree(tmp_path / "c")
            super()._fetch(row, path)

    dataset = Dataset.open(root)
    row = dataset.shards.row(0)
    cache = Swept(dataset, tmp_path / "c")
    assert file_sha256(cache.path(row)) == row.raw_sha256
    assert cache.removals == 2
