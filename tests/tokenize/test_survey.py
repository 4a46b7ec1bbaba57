from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.errors import DamageError, UsageError
from headrace.manifests.dataset import FileEntry
from headrace.tokenize.survey import document_by_id, document_by_number, lengths, sample, sources
from tests.datasets import write_dataset
from tests.tokenize.jobs import EOS, some_texts


def test_a_document_is_found_by_its_id_and_its_number_and_reads_as_it_was(finished: Path) -> None:
    dataset = Dataset.open(finished)
    by_id = document_by_id(dataset, "c-100")
    assert by_id.text == f"{some_texts(2, 120)[100]}{EOS}"
    assert by_id.lineage["source"].endswith("c.parquet")
    assert document_by_number(dataset, by_id.number) == by_id
    assert document_by_number(dataset, 0).lineage["document_id"] == "a-1"


def test_the_search_for_an_id_ends_where_it_is_found(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = Dataset.open(finished)
    names: list[str] = []
    real = Store.read

    def read(store: Store, name: str) -> bytes:
        names.append(name)
        return real(store, name)

    monkeypatch.setattr(Store, "read", read)
    monkeypatch.setattr("headrace.tokenize.survey._SHARDS_AHEAD", 2)
    document_by_id(dataset, "a-1")
    assert dataset.manifest.counts.shards > 4 > len({name for name in names if "lineage" in name})


def test_what_does_not_exist_is_refused(finished: Path) -> None:
    dataset = Dataset.open(finished)
    for number in (-1, dataset.manifest.counts.documents):
        with pytest.raises(UsageError, match="the dataset has 0 to"):
            document_by_number(dataset, number)
    with pytest.raises(UsageError, match="no document has the id 'nobody'; the ids are the values of"):
        document_by_id(dataset, "nobody")
    # Files that are documents have ids without a column, and so have merged datasets whose columns differ.
    files = replace(
        dataset, manifest=replace(dataset.manifest, config={"documents": "files", "id_column": None})
    )
    with pytest.raises(UsageError, match=r"no document has the id 'nobody'$"):
        document_by_id(files, "nobody")


def test_lineage_that_is_not_what_was_published_is_damage(finished: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(shutil.copytree(finished, tmp_path / "dataset"))
    row = dataset.shards.row(0)
    path = dataset.store.local_path(row.lineage)
    path.write_bytes(dataset.store.read(dataset.shards.row(1).lineage))
    with pytest.raises(DamageError, match=f"{row.lineage}: SHA-256"):
        document_by_number(dataset, 0)
    path.unlink()
    with pytest.raises(DamageError, match=f"{row.lineage} is missing"):
        lengths(dataset)


def test_every_document_is_in_the_histogram_once(finished: Path) -> None:
    dataset = Dataset.open(finished)
    found = lengths(dataset)
    assert found.shards == dataset.manifest.counts.shards
    assert (
        sum(count for _, _, count in found.histogram) == dataset.manifest.counts.documents == found.documents
    )
    assert all(below == 2 * least for least, below, _ in found.histogram)


def test_quantiles_are_those_of_all_lengths(finished: Path) -> None:
    dataset = Dataset.open(finished)
    tokens = sorted(
        int(length)
        for row in dataset.shards.rows()
        for length in pq.read_table(finished / row.lineage)["tokens"].to_pylist()
    )
    last = len(tokens) - 1
    assert lengths(dataset).quantiles == {
        "median": tokens[last // 2],
        "p90": tokens[last * 90 // 100],
        "p99": tokens[last * 99 // 100],
        "largest": tokens[-1],
    }


def test_the_sources_add_up(finished: Path) -> None:
    dataset = Dataset.open(finished)
    count, rows = sources(dataset, 10)
    assert count == 4
    assert {Path(row["source"]).name for row in rows} == {
        "a.parquet",
        "b.tfrecord",
        "c.parquet",
        "d.tfrecord",
    }
    assert sum(row["tokens"] for row in rows) == dataset.manifest.counts.tokens
    assert all(row["rows"] == 120 == row["documents"] + row["rejected"] for row in rows)


def test_the_sources_with_the_most_tokens_are_kept_whatever_their_row_group(tmp_path: Path) -> None:
    tokens = [5, 9, 1, 9, 7, 3, 9]
    write_dataset(tmp_path, [[[1, 2]]])
    table = pa.table({"source": [f"s{n}" for n in range(7)], "tokens": tokens})
    pq.write_table(table, tmp_path / "sources.parquet", row_group_size=2)
    opened = Dataset.open(tmp_path)
    files = {**opened.manifest.files, "sources.parquet": FileEntry(bytes=0, sha256="")}
    dataset = replace(opened, manifest=replace(opened.manifest, files=files))
    count, rows = sources(dataset, 3)
    assert count == 7
    assert [row["source"] for row in rows] == ["s1", "s3", "s6"]
    assert sources(dataset, 0) == (7, [])
    (tmp_path / "sources.parquet").write_bytes(b"PAR1")
    with pytest.raises(DamageError, match="not a table of sources"):
        sources(dataset, 3)


def test_a_sample_is_the_same_for_the_same_seed_and_holds_no_document_twice(finished: Path) -> None:
    dataset = Dataset.open(finished)
    some = sample(dataset, 12, 7)
    numbers = [document.number for document in some]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 12
    assert sample(dataset, 12, 7) == some
    assert [document.number for document in sample(dataset, 12, 8)] != numbers
    assert some[3] == document_by_number(dataset, numbers[3])
    # A larger sample holds the smaller one, so that looking at more never loses what was seen.
    assert set(numbers) <= {document.number for document in sample(dataset, 40, 7)}


def test_a_sample_larger_than_the_dataset_is_all_of_it(finished: Path) -> None:
    dataset = Dataset.open(finished)
    total = dataset.manifest.counts.documents
    assert [document.number for document in sample(dataset, total + 5, 0)] == list(range(total))
