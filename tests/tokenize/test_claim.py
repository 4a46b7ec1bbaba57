"""One change of a dataset at a time, also where there is no lock but the journal."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, IncompleteError, MismatchError
from headrace.tokenize.claim import ONTO, claim
from headrace.tokenize.head import make_newest
from headrace.tokenize.journal import Journal
from headrace.tokenize.prune import versions
from headrace.tokenize.takedown import take_down
from headrace.tokenize.verify import verify
from tests.tokenize.jobs import file_hashes
from tests.tokenize.small import publish_small
from tests.tokenize.test_versions import where


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish_small(tmp_path / "d", {"a": [300, 5, 7], "b": [200, 5]})
    return tmp_path / "d"


def identity(dataset: Dataset, name: str) -> dict[str, str]:
    return {ONTO: dataset.manifest.hash, "name": name}


def test_who_began_from_a_version_that_is_no_longer_the_newest_claims_nothing(root: Path) -> None:
    stale = Dataset.open(root)
    publish_small(root, {"c": [1]}, onto=True)
    with pytest.raises(IncompleteError, match="has just changed"):
        claim(stale, identity(stale, "x"))
    assert Journal(stale.store).job() is None
    # Least of all the journal of a change that has begun since.
    newest = Dataset.open(root)
    claim(newest, identity(newest, "y"))
    with pytest.raises(IncompleteError):
        claim(stale, identity(stale, "x"))
    assert Journal(stale.store).job() == identity(newest, "y")


def test_a_head_that_was_replaced_by_another_is_never_replaced_again_from_its_parent(root: Path) -> None:
    """What a process meets that slept through the others' work."""
    stale = Dataset.open(root)
    publish_small(root, {"c": [1]}, onto=True)
    before = file_hashes(root)
    slow = take_down(shutil.copytree(root, root.parent / "copy").as_posix(), where("tokens = 5")).manifest
    assert slow is not None
    with pytest.raises(MismatchError, match=r"no longer at version .* Nothing was published"):
        make_newest(stale.store, slow, stale.shards, {}, stale.manifest)
    after = file_hashes(root)
    assert {name: after[name] for name in before} == before
    # The same change, made by two: both are content.
    make_newest(stale.store, Dataset.open(root).manifest, Dataset.open(root).shards, {}, stale.manifest)
    assert verify(str(root)).ok


def test_what_lies_where_the_parent_is_to_be_kept_is_looked_at(root: Path) -> None:
    """Or the chain of parents would lead to something else."""
    parent = Dataset.open(root).manifest.hash
    (root / f"manifest.{parent[:16]}.json").write_text("{}")
    with pytest.raises(DamageError, match="is not the manifest whose hash is in its name"):
        take_down(str(root), where("tokens = 5"))
    assert Dataset.open(root).manifest.hash == parent


@pytest.mark.s3
def test_of_several_takedowns_at_once_on_s3_each_is_done_or_told_so(root: Path, s3_bucket: str) -> None:
    out = f"{s3_bucket}/d"
    publish_small(out, {"a": [300, 5, 7], "b": [200, 5], "c": [90]})
    predicates = ["tokens = 5", "tokens = 7", "source = 'c'"]

    def attempt(text: str) -> str | None:
        try:
            take_down(out, where(text), threads=1)
        except (MismatchError, IncompleteError) as error:
            return str(error)
        return None

    with ThreadPoolExecutor(len(predicates)) as pool:
        said = list(pool.map(attempt, predicates))
    done = said.count(None)
    assert done >= 1
    assert all(text is None or "unfinished" in text or "has just changed" in text for text in said), said
    assert verify(out).ok
    assert len(versions(out)) == 1 + done
    for text, told in zip(predicates, said, strict=True):
        if told is not None:
            take_down(out, where(text), threads=1)  # nothing that another one left stands in its way
    assert len(versions(out)) == 4
    assert Dataset.open(out).manifest.counts.documents == 2
    assert verify(out).ok
