from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.cache import NodeCache
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.shards import OpenShards, Shard
from headrace.errors import DamageError
from headrace.manifests.shard_table import ShardRow
from tests.datasets import random_documents, write_dataset

document = st.lists(st.integers(0, 999), min_size=1, max_size=300)


@given(st.lists(document, min_size=1, max_size=5), st.sampled_from(["uint16", "uint32"]))
@settings(deadline=None, max_examples=30)
def test_documents_and_their_places_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[int]], dtype: str
) -> None:
    root = write_dataset(tmp_path_factory.mktemp("d"), [documents], dtype=dtype)
    shard = OpenShards(Dataset.open(root)).get(0)
    assert [shard.tokens(d).tolist() for d in range(len(documents))] == documents
    token = 0
    for index, tokens in enumerate(documents):
        assert shard.document_start(index) == token
        assert shard.document_of(token) == index
        assert shard.document_of(token + len(tokens) - 1) == index
        token += len(tokens)


def test_threads_share_one_opening(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(s, 20) for s in range(4)], compression="zstd")
    shards = OpenShards(Dataset.open(root), tmp_path / "cache")
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(shards.get, [i % 4 for i in range(64)]))
    assert len({id(shard) for shard in got}) == 4
    assert shards.cache.bytes_fetched == sum(row.stored_bytes for row in shards.dataset.shards.rows())


def test_indexes_are_dropped_past_their_limit_and_read_again(tmp_path: Path) -> None:
    class Small(OpenShards):
        INDEX_LIMIT_BYTES = 100

    root = write_dataset(tmp_path / "d", [random_documents(s, 10) for s in range(6)])
    shards = Small(Dataset.open(root))
    first = shards.get(0).tokens(3).tolist()
    for index in range(6):
        shards.get(index)
    assert shards._bytes <= 100
    assert shards.get(0).tokens(3).tolist() == first


def test_open_shards_hold_no_file_descriptors_and_are_limited_in_number(tmp_path: Path) -> None:
    """A rank reads as many shards at a time as it has lanes; a process may have 1,024 descriptors."""

    class Few(OpenShards):
        MAX_OPEN = 50

    root = write_dataset(tmp_path / "d", [random_documents(s, 3) for s in range(80)])
    before = len(list(Path("/dev/fd").iterdir()))
    shards = Few(Dataset.open(root))
    held = [shards.get(index) for index in range(80)]
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert len(shards._open) == 50
    assert shards._bytes == sum(shard.ends.nbytes for shard in held[-50:])


def test_a_shard_that_holds_other_counts_than_its_row_is_refused(tmp_path: Path) -> None:
    a = Dataset.open(write_dataset(tmp_path / "a", [[[1, 2, 3], [4]]]))
    b = Dataset.open(write_dataset(tmp_path / "b", [[[1, 2], [4]]]))
    path = a.store.local_path(a.shards.row(0).name)
    with pytest.raises(DamageError, match="does not hold 3 tokens"):
        Shard.map(path, b.shards.row(0), "uint16", "here")


@pytest.mark.parametrize(("documents", "tokens"), [(0, 9), (1 << 40, 9), (2, 1 << 31), (0, 0)])
def test_counts_that_no_file_holds_cost_no_memory_and_are_refused(
    tmp_path: Path, documents: int, tokens: int
) -> None:
    dataset = Dataset.open(write_dataset(tmp_path / "a", [[[1, 2, 3], [4]]]))
    row = replace(dataset.shards.row(0), documents=documents, tokens=tokens)
    with pytest.raises(DamageError, match="is refused"):
        Shard.map(dataset.store.local_path(row.name), row, "uint16", "here")
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(DamageError, match="is refused"):
        Shard.map(empty, row, "uint16", "here")


def test_a_cached_copy_removed_before_it_is_opened_is_fetched_again(tmp_path: Path) -> None:
    class Swept(NodeCache):
        removals = 0

        def path(self, row: ShardRow) -> Path:
            path = super().path(row)
            if self.removals < 2:
                self.removals += 1
                path.unlink()
            return path

    dataset = Dataset.open(write_dataset(tmp_path / "a", [[[1, 2, 3], [4]]], compression="zstd"))
    shards = OpenShards(dataset)
    shards.cache = Swept(dataset, tmp_path / "c")
    assert shards.get(0).tokens(0).tolist() == [1, 2, 3]
