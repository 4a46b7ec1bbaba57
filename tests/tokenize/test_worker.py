from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.dataeng import mds
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.storage import Store
from headrace.errors import DamageError
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import Journal, UnitRecord
from headrace.tokenize.tokenizers import identify
from headrace.tokenize.units import plan_units
from headrace.tokenize.worker import Context, Counts, Task, UnitRunner
from tests.tokenize.jobs import write_parquet


def run_unit(
    source: Path, out: Path, tokenizer: Path, *, quarantine: bool = False, reports: list[Counts] | None = None
) -> UnitRecord:
    """The whole file as one unit, in this process."""
    data = tokenizer.read_bytes()
    found = discover([str(source)], allow_damage=quarantine)
    (unit,) = plan_units(found.sources, 1 << 40)
    context = Context(
        store=Store(out),
        tokenizer=data,
        identity=identify(data, "t"),
        columns=found.columns,
        config=TokenizeConfig(shard_bytes=2_000),
        dtype="uint16",
        quarantine_damage=quarantine,
    )
    sink = reports if reports is not None else []
    return UnitRunner(context).run(Task(unit=unit, sources={0: found.sources[0]}), sink.append)


def damage(path: Path, marker: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[data.find(marker) + 3] ^= 1
    path.write_bytes(data)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """40 rows in 4 row groups, of which the third is damaged."""
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"row {n} " + "~" * 90 for n in range(40)]})
    pq.write_table(
        table, path, row_group_size=10, use_dictionary=False, compression="none", write_page_checksum=True
    )
    damage(path, b"row 25 ")
    return path


def test_damage_stops_the_unit_and_is_named(damaged: Path, tokenizer_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DamageError, match=r"a\.parquet: row group 2 \(10 rows\) cannot be read"):
        run_unit(damaged, tmp_path / "out", tokenizer_file)
    assert Journal(Store(tmp_path / "out")).records() == {}


def test_quarantine_rejects_the_damaged_row_group_and_keeps_the_others(
    damaged: Path, tokenizer_file: Path, tmp_path: Path
) -> None:
    record = run_unit(damaged, tmp_path / "out", tokenizer_file, quarantine=True)
    assert record.rejects == {"damaged": 10}
    assert (record.total("rows"), record.total("documents"), record.total("rejected")) == (40, 30, 10)
    assert record.rejects_file is not None
    rejects = pq.read_table(tmp_path / "out" / record.rejects_file.name).to_pylist()
    assert [(row["row_group"], row["row"]) for row in rejects] == [(2, row) for row in range(10)]
    kept = [
        (row["row_group"], row["row"])
        for shard in record.shards
        for row in pq.read_table(tmp_path / "out" / shard.lineage).to_pylist()
    ]
    assert kept == [(group, row) for group in (0, 1, 3) for row in range(10)]
    assert Journal(Store(tmp_path / "out")).records() == {0: record}


def test_a_document_too_large_for_any_shard_is_a_reject(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parquet(tmp_path / "a.parquet", ["small", "large " * 2_000, "small"])
    monkeypatch.setattr(mds, "MAX_RAW_BYTES", 4_000)
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file)
    assert record.rejects == {"too_large": 1}
    assert record.examples == (f"{tmp_path / 'a.parquet'}: row group 0, row 1: too_large",)
    assert record.total("documents") == 2


def test_the_position_of_an_oddity_does_not_matter(tokenizer_file: Path, tmp_path: Path) -> None:
    texts: list[str | None] = ["one", "two", "three"]
    odd: list[str | None] = [None, "", " "]
    for place in range(4):
        path = tmp_path / f"{place}.parquet"
        write_parquet(path, texts[:place] + odd + texts[place:])
        record = run_unit(path, tmp_path / f"out{place}", tokenizer_file)
        assert record.rejects == {"blank": 1, "empty": 1, "null": 1}
        (shard,) = record.shards
        assert shard.raw_sha256 == run_unit_of(tmp_path, texts, tokenizer_file).shards[0].raw_sha256


def run_unit_of(tmp_path: Path, texts: list[str | None], tokenizer: Path) -> UnitRecord:
    write_parquet(tmp_path / "plain.parquet", texts)
    return run_unit(tmp_path / "plain.parquet", tmp_path / "plain", tokenizer)


def test_a_unit_of_nothing_but_rejects_writes_no_shard(tokenizer_file: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", [None, ""])
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file)
    assert record.shards == ()
    assert not list((tmp_path / "out").glob("shard.*"))


def test_an_open_unit_reports_what_it_has_done(tokenizer_file: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ["text"] * 50)
    reports: list[Counts] = []
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file, reports=reports)
    assert reports
    assert 0 < reports[0].rows <= record.total("rows")
