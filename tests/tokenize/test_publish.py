from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.dataeng.sources.base import SourceFile
from headrace.dataeng.storage import Store
from headrace.errors import BudgetError, DamageError
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import SourceCounts, UnitRecord
from headrace.tokenize.publish import Job, publish, sweep
from tests.tokenize.test_journal import ROW

SOURCE = SourceFile(uri="a", name="a", format="parquet", size=1, fingerprint="ff", num_rows=200)
JOB = Job(
    sources=(SOURCE,),
    tokenizer=b"{}",
    identity=TokenizerId(
        sha256="00", name="t", library="t", vocab_size=9, bos=None, bos_id=None, eos=None, eos_id=None,
        special_tokens="as-text",
    ),
    config=TokenizeConfig(),
    dtype="uint16",
    resolved={},
    inputs={},
    software={},
)  # fmt: skip


def record(unit: int, documents: int, rejected: int) -> UnitRecord:
    row = replace(
        ROW,
        unit=unit,
        name=f"shard.{unit}.mds",
        lineage=f"shard.{unit}.l",
        documents=documents,
        tokens=documents,
    )
    counts = SourceCounts(
        file=0, rows=documents + rejected, documents=documents, rejected=rejected, tokens=documents
    )
    return UnitRecord(
        unit=unit,
        shards=(row,) if documents else (),
        sources=(counts,),
        rejects={"null": rejected} if rejected else {},
        rejects_file=None,
        examples=("a: row 0: null",) if rejected else (),
    )


def stored(directory: Path, records: list[UnitRecord]) -> Store:
    """A store with the files that the records name."""
    store = Store(directory)
    for row in (row for record in records for row in record.shards):
        store.write(row.name, b"x")
        store.write(row.lineage, b"x")
    return store


def test_the_order_in_which_units_finished_does_not_matter(tmp_path: Path) -> None:
    records = [record(0, 60, 0), record(1, 40, 0), record(2, 100, 0)]
    one = publish(stored(tmp_path / "a", records), JOB, records, 0.0)
    other = publish(stored(tmp_path / "b", records), JOB, records[::-1], 0.0)
    assert one.hash == other.hash
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("rejected", "budget", "published"), [(2, 0.01, True), (3, 0.01, False), (0, 0.0, True)]
)
def test_the_budget_is_a_fraction_of_all_rows_and_reaching_it_is_within(
    tmp_path: Path, rejected: int, budget: float, published: bool
) -> None:
    records = [record(0, 200 - rejected, rejected)]
    if published:
        assert publish(stored(tmp_path, records), JOB, records, budget).counts.rejected == rejected
        return
    with pytest.raises(BudgetError, match=r"1\.50% .* budget of 1\.00%.*200 rows seen, 197 kept, 3 rejected"):
        publish(Store(tmp_path), JOB, records, budget)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BudgetError, match=r"--max-rejects 0\.015 to publish"):
        publish(Store(tmp_path), JOB, records, budget)
    publish(stored(tmp_path, records), JOB, records, 0.015)


def test_the_budget_that_a_refusal_names_is_enough(tmp_path: Path) -> None:
    """0.29 * 100 is 28.999999999999996 in floating point."""
    job = replace(JOB, sources=(replace(SOURCE, num_rows=100),))
    for rejected in range(1, 100):
        records = [record(0, 100 - rejected, rejected)]
        with pytest.raises(BudgetError) as refused:
            publish(stored(tmp_path, records), job, records, 0.0)
        (named,) = re.findall(r"--max-rejects (\S+) to publish", str(refused.value))
        publish(stored(tmp_path, records), job, records, float(named))


@pytest.mark.parametrize(
    "records", [[record(0, 199, 0)], [record(0, 201, 0)], [replace(record(0, 190, 10), rejects={"null": 9})]]
)
def test_rows_that_are_not_accounted_for_are_never_published(
    tmp_path: Path, records: list[UnitRecord]
) -> None:
    with pytest.raises(DamageError, match="rows do not add up"):
        publish(Store(tmp_path), JOB, records, 1.0)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_not_a_dataset_whatever_the_budget(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="no document is left"):
        publish(Store(tmp_path), JOB, [record(0, 0, 200)], 1.0)
    assert list(tmp_path.iterdir()) == []


def test_shards_that_no_unit_knows_are_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in ["shard.000000-000.mds", "shard.000000-001.mds", "tokenizer.json", "notes"]:
        (tmp_path / name).write_bytes(b"x")
    left = sweep(Store(tmp_path), {"shard.000000-000.mds"}, range(1))
    assert left == {"shard.000000-000.mds", "tokenizer.json", "notes"}
    assert {path.name for path in tmp_path.iterdir()} == {"shard.000000-000.mds", "tokenizer.json", "notes"}


def test_shards_that_were_removed_while_the_job_ran_are_never_published(tmp_path: Path) -> None:
    records = [record(0, 60, 0), record(1, 40, 0), record(2, 100, 0)]
    store = stored(tmp_path, records)
    store.remove("shard.1.mds")
    store.remove("shard.2.l")
    with pytest.raises(DamageError, match=r"2 finished files are gone \(shard\.1\.mds, \.\.\.\)"):
        publish(store, JOB, records, 0.0)
    assert not (tmp_path / "manifest.json").exists()
