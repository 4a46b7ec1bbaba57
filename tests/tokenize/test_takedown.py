"""`headrace filter`: documents leave a dataset, into a new version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.errors import BudgetError, DamageError, MismatchError, UsageError
from headrace.manifests.dataset import MANIFEST
from headrace.tokenize.document_list import read_document_list
from headrace.tokenize.prune import abandon, versions
from headrace.tokenize.takedown import Takedown, take_down
from headrace.tokenize.verify import verify
from tests.s3 import S3Server
from tests.tokenize.dying import Died, dying_at
from tests.tokenize.jobs import file_hashes, object_hashes
from tests.tokenize.small import all_documents, documents, publish_small
from tests.tokenize.test_versions import where

SOURCES = {"a": [300, 0, 5, 90], "b": [200], "c": [400, 400, 7], "d": [1]}
SHORT = where("tokens < 10 and source != 'd'")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    publish_small(tmp_path / "d", SOURCES)
    return tmp_path / "d"


@pytest.fixture
def filtered(tmp_path: Path, root: Path) -> Path:
    """The same dataset and its version without short documents, made by one thread. Read only."""
    shutil.copytree(root, tmp_path / "filtered")
    take_down(str(tmp_path / "filtered"), SHORT, threads=1)
    return tmp_path / "filtered"


def test_only_shards_that_lose_documents_are_written_anew(root: Path, filtered: Path) -> None:
    before, after = Dataset.open(root).shards.rows(), Dataset.open(filtered).shards.rows()
    assert [row.name for row in before if row not in after] == [
        "shard.000000-000.mds",
        "shard.000002-002.mds",
    ]
    assert [row.unit for row in after if row not in before] == [
        4
    ]  # the one of source c had only such documents
    same = file_hashes(filtered)
    assert all(
        same[name] == digest for name, digest in file_hashes(root).items() if name.startswith("shard.")
    )
    kept = [each for source, lengths in SOURCES.items() for each in documents(source, lengths)]
    assert all_documents(Dataset.open(filtered)) == [e for e in kept if len(e[3]) >= 10 or e[1] == "d"]


def test_law_6_a_takedown_that_dies_at_any_instant_is_continued_by_the_same_command(
    root: Path, filtered: Path, tmp_path: Path
) -> None:
    expected = file_hashes(filtered)
    newest = {Dataset.open(root).manifest.hash, Dataset.open(filtered).manifest.hash}
    instant = finished = 0
    while not finished:
        work = shutil.copytree(root, tmp_path / f"work{instant}")
        try:
            with dying_at(instant):
                take_down(str(work), SHORT, threads=2)
            finished = instant
        except Died:
            pass
        assert Dataset.open(work).manifest.hash in newest
        take_down(str(work), SHORT, threads=3)
        assert file_hashes(work) == expected
        instant += 1
    assert finished > 15


def test_a_change_that_died_stands_in_the_way_of_others_until_it_is_finished_or_given_up(
    root: Path, tmp_path: Path
) -> None:
    before = file_hashes(root)
    for instant in (1, 5, 9, 11):
        work = shutil.copytree(root, tmp_path / f"work{instant}")
        with pytest.raises(Died), dying_at(instant):
            take_down(str(work), SHORT, threads=1)
        with pytest.raises(MismatchError, match=r"is unfinished.*\n.*change\.where.*\n.*--abandon"):
            take_down(str(work), where("source = 'b'"))
        removed = abandon(str(work))
        assert file_hashes(work) == before
        assert removed == {1: 0, 5: 2, 9: 4, 11: 6}[instant]
        with pytest.raises(MismatchError, match="none to give up"):
            abandon(str(work))
        take_down(str(work), where("source = 'b'"))
        assert verify(str(work)).ok


def test_a_command_that_was_done_says_so_and_another_is_not_kept_from_its_work_by_what_it_left(
    root: Path, tmp_path: Path
) -> None:
    """Killed between the new head and the end, the journal is still there, and nobody has to run the same command again."""
    instant = 0
    while True:
        work = shutil.copytree(root, tmp_path / f"work{instant}")
        with dying_at(instant):
            try:
                take_down(str(work), SHORT, threads=1)
            except Died:
                pass
        if len(versions(str(work))) == 2:
            break
        instant += 1
    assert (work / "_units").exists()
    given_up = shutil.copytree(work, tmp_path / "given up")
    with pytest.raises(MismatchError, match="the change was published, as version"):
        abandon(str(given_up))
    assert not (given_up / "_units").exists()
    assert len(versions(str(given_up))) == 2
    assert verify(str(given_up)).ok
    take_down(str(work), where("source = 'b'"))
    assert not (work / "_units").exists()
    assert verify(str(work)).ok
    assert len(versions(str(work))) == 3
    assert take_down(str(work), where("source = 'b'")).already_complete


def test_nothing_selected_and_everything_selected_are_refused(root: Path) -> None:
    before = file_hashes(root)
    for rehearse in (False, True):
        with pytest.raises(UsageError, match="none of the 8 documents would go"):
            take_down(str(root), where("tokens > 5000"), rehearse=rehearse)
        with pytest.raises(BudgetError, match="all 8 documents would go"):
            take_down(str(root), where("tokens > 5000", keep=True), rehearse=rehearse)
    with pytest.raises(UsageError, match="only the newest version can be changed"):
        take_down(f"{root}@{Dataset.open(root).manifest.hash[:12]}", SHORT)
    assert file_hashes(root) == before


def test_a_rehearsal_says_what_would_go_and_changes_nothing(root: Path) -> None:
    before = file_hashes(root)
    outcome = take_down(str(root), SHORT, rehearse=True)
    assert (outcome.manifest, dict(outcome.sources), outcome.total("tokens")) == (None, {"a": 1, "c": 1}, 12)
    assert file_hashes(root) == before


def test_a_list_takes_down_what_it_names_and_the_manifest_does_not_repeat_it(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "list").write_text("a-0\nc-2\nunknown\n")
    listed = read_document_list(str(tmp_path / "list"))
    told = {"documents": len(listed), "documents_digest": listed.digest}
    take_down(str(root), Takedown(selection=listed, keep=False, told=told))
    assert listed.not_found() == [{"document_id": "unknown"}]
    assert {each[0] for each in all_documents(Dataset.open(root))} == {
        "a-2",
        "a-3",
        "b-0",
        "c-0",
        "c-1",
        "d-0",
    }
    assert b"a-0" not in (root / MANIFEST).read_bytes()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shard.000000-000.mds", "not written anew from damaged"),
        ("shard.000000-000.lineage.parquet", "SHA-256"),
    ],
)
def test_damage_in_what_is_to_be_written_anew_is_refused(name: str, message: str, root: Path) -> None:
    data = bytearray((root / name).read_bytes())
    data[len(data) // 2] ^= 1
    (root / name).write_bytes(data)
    with pytest.raises(DamageError, match=message):
        take_down(str(root), SHORT)
    (root / name).unlink()
    with pytest.raises(DamageError, match="is missing"):
        take_down(str(root), SHORT)
    assert len(versions(str(root))) == 1


@pytest.mark.s3
def test_law_10_a_takedown_on_s3_gives_the_bytes_of_a_local_one(
    root: Path, filtered: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    out = f"{s3_bucket}/d"
    publish_small(out, SOURCES)
    with pytest.raises(Died), dying_at(14):
        take_down(out, SHORT, threads=2)
    take_down(out, SHORT, threads=2)
    assert object_hashes(s3_server, out) == file_hashes(filtered)
    assert verify(f"{out}@{Dataset.open(root).manifest.hash[:12]}").ok
