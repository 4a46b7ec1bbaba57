from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest

from headrace.dataeng import mds
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.storage import Store
from headrace.errors import DamageError
from headrace.tokenize import reading, tools
from headrace.tokenize.backends import BackendError, Encoded, Fast, Reference
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.executors.base import Counts
from headrace.tokenize.journal import Journal, UnitRecord
from headrace.tokenize.tokenizers import identify
from headrace.tokenize.tools import Context, Tools
from headrace.tokenize.units import plan_units
from headrace.tokenize.worker import TokenizeUnit
from tests.tokenize.jobs import file_hashes, some_texts, write_parquet


def run_unit(
    source: Path | list[Path],
    out: Path,
    tokenizer: Path,
    *,
    quarantine: bool = False,
    reports: list[Counts] | None = None,
    earlier: UnitRecord | None = None,
    notes: list[str] | None = None,
    max_document_bytes: int = 1 << 20,
    **options: Any,
) -> UnitRecord:
    """The whole of the files as one unit, in this process."""
    data = tokenizer.read_bytes()
    sources = [source] if isinstance(source, Path) else source
    found = discover([str(place) for place in sources], allow_damage=quarantine)
    (unit,) = plan_units(found.sources, 1 << 40)
    context = Context(
        store=Store(out),
        tokenizer=data,
        identity=identify(data, "t"),
        columns=found.columns,
        config=TokenizeConfig(shard_bytes=2_000, max_document_bytes=max_document_bytes),
        dtype="uint16",
        quarantine_damage=quarantine,
        **options,
    )
    sink = reports if reports is not None else []
    tools = Tools(context)
    record = TokenizeUnit(unit=unit, sources=dict(enumerate(found.sources)), earlier=earlier).run(
        tools, sink.append
    )
    if notes is not None:
        notes += tools.take_notes()
    return record


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
    assert [(row["row_group"], row["row"], row["rows"]) for row in rejects] == [(2, 0, 10)]
    kept = [
        (row["row_group"], row["row"])
        for shard in record.shards
        for row in pq.read_table(tmp_path / "out" / shard.lineage).to_pylist()
    ]
    assert kept == [(group, row) for group in (0, 1, 3) for row in range(10)]
    assert Journal(Store(tmp_path / "out")).records() == {0: record}


def test_rows_that_were_quarantined_are_looked_at_again(
    damaged: Path, tokenizer_file: Path, tmp_path: Path
) -> None:
    """The footer, and with it the job, stays the same when a damaged page is restored."""
    earlier = run_unit(damaged, tmp_path / "out", tokenizer_file, quarantine=True)
    again = run_unit(damaged, tmp_path / "out", tokenizer_file, quarantine=True, earlier=earlier)
    assert again == earlier
    with pytest.raises(DamageError, match="row group 2"):
        run_unit(damaged, tmp_path / "out", tokenizer_file, earlier=earlier)
    damage(damaged, b"row!25 ")  # the same bit again
    restored = run_unit(damaged, tmp_path / "out", tokenizer_file, earlier=earlier)
    assert (restored.total("documents"), restored.rejects) == (40, {})


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


def test_a_text_over_the_limit_is_a_reject_and_the_limit_itself_is_not(
    tokenizer_file: Path, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "a.parquet", ["a" * 100, "b" * 101, "é" * 50, "é" * 51])
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file, max_document_bytes=100)
    assert record.rejects == {"too_large": 2}
    assert record.examples[0].endswith("row group 0, row 1: too_large")


def test_a_text_on_which_the_tokenizer_gives_up_is_a_reject_and_its_neighbours_are_documents(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "_ids", gives_up_on("never", Reference._ids))
    write_parquet(tmp_path / "a.parquet", ["one", "never", "two", None])
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file)
    assert record.rejects == {"not_tokenizable": 1, "null": 1}
    assert record.total("documents") == 2
    assert record.examples[0].endswith("row 1: not_tokenizable")


def gives_up_on(
    word: str, ids: Callable[[Reference, Sequence[str]], list[list[int]]]
) -> Callable[[Reference, Sequence[str]], list[list[int]]]:
    def changed(self: Reference, texts: Sequence[str]) -> list[list[int]]:
        if any(word in text for text in texts):
            raise BackendError("retry-limit-in-match over")
        return ids(self, texts)

    return changed


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("backend", ["reference", "fast", "full"])
def test_law_4_neither_the_backend_nor_the_number_of_threads_changes_a_byte(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, backend: str
) -> None:
    if backend != "reference":
        pytest.importorskip("fastokens", reason="fastokens is not installed: pip install 'headrace[fast]'")
    monkeypatch.setattr(reading, "_GROUP_BYTES", 500)  # so that many groups are on their way at a time
    write_parquet(tmp_path / "a.parquet", some_texts(3, 300))
    plain = run_unit(tmp_path / "a.parquet", tmp_path / "plain", tokenizer_file)
    record = run_unit(
        tmp_path / "a.parquet",
        tmp_path / "out",
        tokenizer_file,
        threads=threads,
        fast_tokenizer=backend != "reference",
        exact_check_full=backend == "full",
    )
    assert record == plain
    assert file_hashes(tmp_path / "out") == file_hashes(tmp_path / "plain")


def test_a_file_on_which_the_fast_backend_differs_is_encoded_by_the_definition_and_that_is_told(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other file of the unit keeps the fast backend, which is seen by its ids: here they are wrong on purpose."""
    write_parquet(tmp_path / "a.parquet", ["wrong from the first document on", "x"])
    write_parquet(tmp_path / "b.parquet", ["y", "z"])
    monkeypatch.setattr(tools, "checked", lambda _fast, reference: Liar(reference))
    notes: list[str] = []
    sources = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    record = run_unit(sources, tmp_path / "out", tokenizer_file, fast_tokenizer=True, notes=notes)
    assert notes == [
        f"{sources[0]}: fastokens gives other ids in row 0; tokenizers encodes unit 0 of this file"
    ]
    assert record == run_unit(sources, tmp_path / "plain", tokenizer_file)
    assert sorted(Liar.seen) == ["wrong from the first document on", "x", "y", "z"]


class Liar(Fast):
    """Differs from the definition where a text says so."""

    seen: ClassVar[set[str]] = set()

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def encode(self, texts: Sequence[str]) -> Encoded:
        Liar.seen |= set(texts)
        found = self._reference.encode(texts)
        if any("wrong" in text for text in texts):
            return found._replace(ids=found.ids ^ np.uint32(1))
        return found


def test_a_backend_that_is_refused_is_told_and_the_definition_encodes(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    write_parquet(tmp_path / "a.parquet", ["text"])
    notes: list[str] = []
    run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file, fast_tokenizer=True, notes=notes)
    assert len(notes) == 1
    assert "fastokens is not installed" in notes[0]
    assert notes[0].endswith("tokenizers encodes all files")


def test_rejects_are_in_the_order_of_the_rows_whoever_found_them(
    tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Null is seen when the row is read, too much text when it is grouped, no tokens when it was encoded."""
    monkeypatch.setattr(Reference, "_ids", gives_up_on("never", Reference._ids))
    texts = ["never", None, "b" * 200, "never", "", "fine", "b" * 200, "never", None]
    write_parquet(tmp_path / "a.parquet", texts, row_group_size=4)
    record = run_unit(tmp_path / "a.parquet", tmp_path / "out", tokenizer_file, max_document_bytes=100)
    assert record.rejects_file is not None
    rejects = pq.read_table(tmp_path / "out" / record.rejects_file.name).to_pylist()
    assert [(row["row_group"], row["row"], row["reason"]) for row in rejects] == [
        (0, 0, "not_tokenizable"),
        (0, 1, "null"),
        (0, 2, "too_large"),
        (0, 3, "not_tokenizable"),
        (1, 0, "empty"),
        (1, 2, "too_large"),
        (1, 3, "not_tokenizable"),
        (2, 0, "null"),
    ]
