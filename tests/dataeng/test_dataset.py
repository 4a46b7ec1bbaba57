from dataclasses import replace
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource
from headrace.dataeng.versions import tombstone
from headrace.errors import DamageError, InputError, MismatchError
from headrace.manifests.dataset import MANIFEST, SHARDS, DatasetManifest, archived_manifest, named_by_hash
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


def grown(root: Path) -> tuple[str, str]:
    """A dataset of two versions, the second with one shard more; their hashes."""
    first = Dataset.open(write_dataset(root, [[[1, 2, 3], [4]]])).manifest
    for name in (SHARDS, MANIFEST):
        (root / name).rename(root / f"first-{name}")
    write_dataset(root, [[[1, 2, 3], [4]], [[5, 6]]])
    (root / f"first-{MANIFEST}").rename(root / archived_manifest(first.hash))
    table = named_by_hash(SHARDS, first.files[SHARDS].sha256)
    (root / SHARDS).rename(root / table)
    (root / f"first-{SHARDS}").rename(root / SHARDS)
    second = DatasetManifest.from_bytes((root / MANIFEST).read_bytes(), "m")
    second = replace(second, parent=first.hash, files={table: second.files[SHARDS]})
    (root / MANIFEST).write_bytes(second.to_bytes())
    return first.hash, second.hash


def test_an_older_version_is_opened_by_its_hash_or_by_its_content(tmp_path: Path) -> None:
    first, second = grown(tmp_path / "d")
    newest = Dataset.open(tmp_path / "d")
    assert (newest.manifest.hash, newest.shards.num_shards, newest.is_newest) == (second, 2, True)
    for wanted in (first, first[:8], newest.manifest.parent):
        older = Dataset.open(tmp_path / "d", version=wanted)
        assert (older.manifest.hash, older.shards.num_shards, older.is_newest) == (first, 1, False)
    assert Dataset.open(f"{tmp_path / 'd'}@{older.manifest.content_hash[:12]}").manifest.hash == first
    assert PlanSource.open(f"{tmp_path / 'd'}@{first[:8]}").uri == str(tmp_path / "d")


def test_a_version_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    first, second = grown(tmp_path / "d")
    with pytest.raises(
        MismatchError, match=rf"begins with 00000000;[^$]*version {second[:16]}[^$]*version {first[:16]}"
    ):
        Dataset.open(tmp_path / "d", version="0" * 8)
    (tmp_path / "d" / tombstone(first)).write_bytes(b"{}")
    with pytest.raises(MismatchError, match="was pruned"):
        Dataset.open(tmp_path / "d", version=first)
    (tmp_path / "d" / archived_manifest(first)).write_bytes(b"{}")
    with pytest.raises(DamageError, match="its child names"):
        Dataset.open(tmp_path / "d", version=first)
    (tmp_path / "d" / archived_manifest(first)).unlink()
    with pytest.raises(DamageError, match="is missing"):
        Dataset.open(tmp_path / "d", version=first)
    assert Dataset.open(tmp_path / "d").manifest.hash == second


def test_a_directory_that_is_called_like_a_version_is_opened_with_a_slash(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d@0123abcd", [[[1, 2, 3]]])
    with pytest.raises(InputError, match=r"d/manifest\.json does not exist"):
        Dataset.open(tmp_path / "d@0123abcd")
    assert Dataset.open(f"{tmp_path}/d@0123abcd/").shards.num_shards == 1
    source = PlanSource.open(f"{tmp_path}/d@0123abcd/")
    assert Dataset.open(source.uri).manifest.content_hash == source.content_hash


def test_law_3_a_plan_opens_the_version_that_it_was_made_for(tmp_path: Path) -> None:
    first, _ = grown(tmp_path / "d")
    plan = Plan.create([PlanSource.open(f"{tmp_path / 'd'}@{first}")], sequence_length=1)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.hash == plan.hash
    assert loaded.sources[0].dataset is not None
    assert loaded.sources[0].dataset.manifest.hash == first
