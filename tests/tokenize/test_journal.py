from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.dataeng.storage import Store
from headrace.errors import MismatchError
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.journal import (
    JOB,
    Journal,
    SourceCounts,
    StoredFile,
    UnitRecord,
    is_intact,
    require_same_job,
)

ROW = ShardRow(
    unit=3, name="a.mds", raw_bytes=1, raw_sha256="00" * 32, stored_bytes=1, stored_sha256="00" * 32,
    documents=1, tokens=1, lineage="a.lineage.parquet", lineage_sha256="11" * 32,
)  # fmt: skip
RECORD = UnitRecord(
    unit=3,
    shards=(ROW,),
    sources=(SourceCounts(file=0, rows=2, documents=1, rejected=1, tokens=1, text_bytes=9),),
    rejects={"null": 1},
    rejects_file=StoredFile(name="r", sha256="22" * 32),
    examples=("a: row 0: null",),
)


def test_records_read_back_and_the_job_is_not_one_of_them(tmp_path: Path) -> None:
    journal = Journal(Store(tmp_path))
    assert (journal.job(), journal.records()) == (None, {})
    journal.begin({"inputs": 1})
    journal.write(RECORD)
    assert (journal.job(), journal.records()) == ({"inputs": 1}, {3: RECORD})


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", b'{"unit": 3}', b"\xff"])
def test_a_record_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, data: bytes) -> None:
    journal = Journal(Store(tmp_path))
    journal.write(RECORD)
    (tmp_path / "_units" / "000003.json").write_bytes(data)
    assert journal.records() == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"tokens": 1', b'"tokens": 2'),
        (b'"raw_sha256": "00', b'"raw_sha256": "01'),
        (b'"a.mds"', b'"../a.mds"'),
        (b'"unit": 3', b'"unit": "3"'),
    ],
)
def test_an_altered_record_is_as_good_as_none(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Of the files, hashes tell; of the counts, and of the raw hash of a compressed shard, only the record's own."""
    journal = Journal(Store(tmp_path))
    journal.write(RECORD)
    path = tmp_path / "_units" / "000003.json"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    assert journal.records() == {}


@pytest.mark.parametrize(
    "change", [{"name": "../a"}, {"name": "/etc/passwd"}, {"tokens": "1"}, {"unit": -(2**70)}]
)
def test_a_record_with_a_good_hash_still_has_to_be_one(tmp_path: Path, change: dict[str, object]) -> None:
    journal = Journal(Store(tmp_path))
    journal.write(replace(RECORD, shards=(replace(ROW, **change),)))  # type: ignore[arg-type]
    assert journal.records() == {}


def test_a_record_under_another_name_is_not_believed(tmp_path: Path) -> None:
    journal = Journal(Store(tmp_path))
    journal.write(RECORD)
    (tmp_path / "_units" / "000003.json").rename(tmp_path / "_units" / "000004.json")
    assert journal.records() == {}


def test_removing_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    journal = Journal(Store(tmp_path))
    journal.begin({})
    journal.write(RECORD)
    journal.remove()
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_every_entry_in_which_two_jobs_differ_is_named() -> None:
    there = {"same": 1, "config": {"a": 1, "b": 2}, "gone": 3}
    here = {"same": 1, "config": {"a": 1, "b": 9}, "new": "x" * 500}
    with pytest.raises(MismatchError) as caught:
        require_same_job(there, here, "out/")
    lines = str(caught.value).splitlines()
    assert lines[1:4] == [
        "  config.b: there 2, here 9",
        "  gone: there 3, here None",
        f"  new: there None, here {'x' * 500!r:.77}...",
    ]
    require_same_job(there, dict(there), "out/")


def test_a_file_is_intact_by_its_bytes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("a", b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert is_intact(store, StoredFile(name="a", sha256=digest))
    store.write("a", b"abd")
    assert not is_intact(store, StoredFile(name="a", sha256=digest))
    assert not is_intact(store, StoredFile(name=JOB, sha256=digest))
