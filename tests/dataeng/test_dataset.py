from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, InputError
from headrace.manifests.dataset import MANIFEST, SHARDS
from tests.datasets import write_dataset


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "d", [[[1, 2, 3]], [[4], [5, 6]]])


def test_a_dataset_opens_to_what_was_published(root: Path) -> None:
    dataset = Dataset.open(root)
    assert dataset.shards.tokens.tolist() == [3, 3]
    assert dataset.manifest.counts.documents == 3


def test_law_6_a_directory_without_a_manifest_is_no_dataset(root: Path) -> None:
    (root / MANIFEST).unlink()
    with pytest.raises(InputError, match="has not finished"):
        Dataset.open(root)
    with pytest.raises(InputError, match="does not exist"):
        Dataset.open(root / "nothing")


def test_another_shard_table_is_refused(root: Path) -> None:
    other = write_dataset(root.parent / "other", [[[1, 2, 3]], [[4], [5, 7]]])
    (root / SHARDS).write_bytes((other / SHARDS).read_bytes())
    with pytest.raises(DamageError, match="cannot be trusted"):
        Dataset.open(root)
    (root / SHARDS).unlink()
    with pytest.raises(DamageError, match="is missing"):
        Dataset.open(root)


def test_a_content_hash_that_does_not_follow_is_refused(root: Path) -> None:
    text = (root / MANIFEST).read_text()
    stated = Dataset.open(root).manifest.content_hash
    (root / MANIFEST).write_text(text.replace(stated, "0" * 64))
    with pytest.raises(DamageError, match="content_hash"):
        Dataset.open(root)
