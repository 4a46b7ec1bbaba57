from __future__ import annotations

from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.storage import Store
from headrace.errors import UsageError
from headrace.tokenize.survey import document_by_id, document_by_number, lengths, sources
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
    with pytest.raises(UsageError, match="no document has the id 'nobody'"):
        document_by_id(dataset, "nobody")


def test_every_document_is_in_the_histogram_once(finished: Path) -> None:
    dataset = Dataset.open(finished)
    histogram, shards = lengths(dataset)
    assert shards == dataset.manifest.counts.shards
    assert sum(count for _, _, count in histogram) == dataset.manifest.counts.documents
    assert all(below == 2 * least for least, below, _ in histogram)


def test_the_sources_add_up(finished: Path) -> None:
    dataset = Dataset.open(finished)
    rows = sources(dataset)
    assert [Path(row["source"]).name for row in rows] == [
        "a.parquet",
        "b.tfrecord",
        "c.parquet",
        "d.tfrecord",
    ]
    assert sum(row["tokens"] for row in rows) == dataset.manifest.counts.tokens
    assert all(row["rows"] == 120 == row["documents"] + row["rejected"] for row in rows)
