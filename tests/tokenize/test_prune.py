"""`headrace versions`: erasing what only old versions need."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, InputError, MismatchError, UsageError
from headrace.manifests.names import unit_of
from headrace.tokenize.prune import OLD, prune, versions
from headrace.tokenize.takedown import take_down
from headrace.tokenize.verify import verify
from tests.tokenize.dying import Died, dying_at
from tests.tokenize.jobs import file_hashes
from tests.tokenize.small import publish_small
from tests.tokenize.test_versions import where


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three versions: two sources, one more, and without the short documents of the first."""
    path = tmp_path / "d"
    publish_small(path, {"a": [300, 5], "b": [200]})
    publish_small(path, {"c": [400]}, onto=True)
    take_down(str(path), where("source = 'a' and tokens = 5"))
    return path


def states(root: Path) -> list[str]:
    return [version.state for version in versions(str(root))]


def test_what_only_pruned_versions_need_is_gone_and_nothing_else(root: Path) -> None:
    before = set(file_hashes(root))
    newest, middle, first = (version.manifest for version in versions(str(root)))
    assert prune(str(root), [middle.hash[:12]], rehearse=True)
    assert set(file_hashes(root)) == before
    gone = prune(str(root), [middle.content_hash])
    # Its shards are also in one of the other two.
    assert {name.split(".")[0] for name in gone} == {"shards", "sources"}
    assert states(root) == ["newest", "pruned", "kept"]
    assert verify(f"{root}@{first.hash}").ok
    assert verify(str(root)).ok
    gone = prune(str(root), [OLD])
    assert {unit_of(name) for name in gone if unit_of(name) is not None} == {0}
    assert states(root) == ["newest", "pruned", "pruned"]
    assert verify(str(root)).ok
    heads = {f"{kind}.{each.hash[:16]}.json" for each in (middle, first) for kind in ("manifest", "pruned")}
    assert set(file_hashes(root)) == {
        *Dataset.open(root).shards.names(), *newest.files, "manifest.json", "index.json", *heads
    }  # fmt: skip
    assert prune(str(root), [OLD]) == []


def test_law_6_a_prune_that_dies_at_any_instant_leaves_no_version_half_there_and_is_finished_by_the_next(
    root: Path, tmp_path: Path
) -> None:
    pruned = shutil.copytree(root, tmp_path / "pruned")
    prune(str(pruned), [OLD])
    expected = file_hashes(pruned)
    instant, finished = 0, False
    while not finished:
        work = shutil.copytree(root, tmp_path / f"work{instant}")
        try:
            with dying_at(instant):
                prune(str(work), [OLD])
            finished = True
        except Died:
            pass
        for version in versions(str(work)):
            if version.state in ("newest", "kept"):
                assert verify(f"{work}@{version.manifest.hash}").ok
            else:
                with pytest.raises(MismatchError, match="was pruned"):
                    Dataset.open(work, version=version.manifest.hash)
        prune(str(work), [OLD])
        assert file_hashes(work) == expected
        instant += 1
    assert instant > 8


def test_the_newest_version_and_one_that_is_not_there_are_not_pruned(root: Path, tmp_path: Path) -> None:
    before = file_hashes(root)
    with pytest.raises(UsageError, match="is the newest version"):
        prune(str(root), [OLD, Dataset.open(root).manifest.hash[:8]])
    with pytest.raises(MismatchError, match="no version or content begins with 00000000"):
        prune(str(root), ["0" * 8])
    with pytest.raises(UsageError, match="names one version"):
        versions(f"{root}@00000000")
    with pytest.raises(InputError, match="holds no dataset"):
        versions(str(tmp_path / "absent"))
    assert file_hashes(root) == before


def test_nothing_is_erased_while_it_is_not_known_what_stays(root: Path) -> None:
    table = root / Dataset.open(root).manifest.stored_name("shards.parquet")
    table.write_bytes(table.read_bytes()[:-1])
    before = file_hashes(root)
    with pytest.raises(DamageError):
        prune(str(root), [OLD])
    assert file_hashes(root) == before
