"""Every input format through the whole of tokenization: the same documents give the same tokens."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import read_lineage
from tests.tokenize.jobs import CommandLine, file_hashes, some_texts, write_tfrecord, write_tokenizer

TEXTS = some_texts(3, 150)
KEPT = [text for text in TEXTS if text is not None and text.encode().strip()]
OPTIONS = ("--shard-bytes", "4k", "--max-rejects", "0.2")


def json_lines() -> bytes:
    return b"".join(json.dumps({"id": str(n), "text": text}).encode() + b"\n" for n, text in enumerate(TEXTS))


def records(directory: Path) -> bytes:
    write_tfrecord(directory / "records", TEXTS)
    return (directory / "records").read_bytes()


def arrow_stream(directory: Path) -> bytes:
    table = pa.table({"text": pa.array(TEXTS, pa.string())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=17)
    return bytes(sink.getvalue())


WRITERS: dict[str, Callable[[Path], bytes]] = {
    "a.jsonl": lambda _: json_lines(),
    "a.jsonl.gz": lambda _: gzip.compress(json_lines()),
    "a.jsonl.zst": lambda _: zstandard.compress(json_lines()),
    "a.arrow": arrow_stream,
    "a.tfrecord.gz": lambda directory: gzip.compress(records(directory)),
}


def lineage(dataset: Path) -> Iterator[dict[str, object]]:
    opened = Dataset.open(str(dataset))
    for row in opened.shards.rows():
        yield from read_lineage(opened.store.read(row.lineage), row.lineage).to_pylist()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="module")
def expected(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, object]]:
    """(hash, tokens) of each document, by way of Parquet."""
    directory = tmp_path_factory.mktemp("expected")
    pq.write_table(pa.table({"text": TEXTS}), directory / "a.parquet")
    CommandLine(directory / "a.parquet", tokenizer, OPTIONS).run(directory / "out")
    found = [(row["text_hash"], row["tokens"]) for row in lineage(directory / "out")]
    assert len(found) == len(KEPT)
    return found


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_documents_give_the_same_tokens_and_any_workers_the_same_bytes(
    tmp_path: Path, tokenizer: Path, expected: list[tuple[object, object]], name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(WRITERS[name](tmp_path))
    job = CommandLine(path, tokenizer, OPTIONS)
    for workers in ["1", "2"]:
        out = job.run(tmp_path / f"out{workers}", "--workers", workers).stdout
        assert f"{len(TEXTS)} = {len(KEPT)} documents + {len(TEXTS) - len(KEPT)} rejected" in out
    rows = list(lineage(tmp_path / "out1"))
    assert [(row["text_hash"], row["tokens"]) for row in rows] == expected
    assert file_hashes(tmp_path / "out1") == file_hashes(tmp_path / "out2")
    places = [(row["row_group"] or 0, row["row"]) for row in rows]
    assert len(set(places)) == len(places)


def test_a_cut_file_stops_the_job_and_in_quarantine_gives_what_is_before_the_cut(
    tmp_path: Path, tokenizer: Path
) -> None:
    path = tmp_path / "a.jsonl.gz"
    whole = json.dumps({"text": "a mill wheel"}).encode() + b"\n"
    path.write_bytes(gzip.compress(whole * 50) + gzip.compress(whole * 50)[:-4])
    job = CommandLine(path, tokenizer, OPTIONS)
    stopped = job.run(tmp_path / "out", code=1)
    assert f"{path}: the gzip data ends inside a member, at byte" in stopped.stderr
    assert re.search(r"headrace: \d+ rows were read = \d+ documents \+ \d+ rejected", stopped.stderr)
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = job.run(tmp_path / "out", "--on-damage", "quarantine")
    assert "101 = 100 documents + 1 rejected" in done.stdout
    (reject,) = pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()
    assert (reject["reason"], reject["row"]) == ("damaged", 100)


def test_files_of_a_list_become_documents_named_by_their_paths(tmp_path: Path, tokenizer: Path) -> None:
    for name, text in {
        "src/a.py": "mill",
        "src/deep/b.py": "wheel",
        "notes.md": "water",
        "logo.png": "\0",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "list.txt").write_text(f"{tmp_path}/*.[mp]*\n")
    options = ("--documents", "files", "--max-rejects", "0.5", "--sources-from", str(tmp_path / "list.txt"))
    done = CommandLine(tmp_path / "src", tokenizer, options).run(tmp_path / "out")
    assert "4 = 3 documents + 1 rejected" in done.stdout
    assert re.search(r"rejected +1 +25.00% +binary", done.stdout)
    found = [(row["source"], row["document_id"]) for row in lineage(tmp_path / "out")]
    assert found == [
        (f"{tmp_path}/src", "a.py"),
        (f"{tmp_path}/src", "deep/b.py"),
        (str(tmp_path), "notes.md"),
    ]


def test_files_of_which_nothing_can_be_read_stop_the_job_or_are_one_reject_each(
    tmp_path: Path, tokenizer: Path
) -> None:
    corpus = tmp_path / "in"
    corpus.mkdir()
    pq.write_table(pa.table({"text": ["a mill wheel"] * 9}), corpus / "good.parquet")
    whole = (corpus / "good.parquet").read_bytes()
    bad = {
        "cut.parquet": (whole[:-20], "does not end as it"),
        "empty.parquet": (b"", "zero bytes"),
        "error.parquet": (b"<?xml version='1.0'?><Error/>", "XML or HTML"),
        "nan.jsonl": (b'{"text": NaN}\n', "line 0 at byte 0 is not one JSON value"),
        "cut.arrow": (arrow_stream(tmp_path)[:20], "the Arrow schema or footer cannot be read"),
    }
    for name, (data, _) in bad.items():
        (corpus / name).write_bytes(data)
    job = CommandLine(corpus, tokenizer, ("--shard-bytes", "4k", "--max-rejects", "0.5"))
    stopped = job.run(tmp_path / "out", code=2)
    done = job.run(tmp_path / "out", "--on-damage", "quarantine")
    for name, (_, words) in bad.items():
        for said in (stopped.stderr, done.stderr):
            assert any(f"{corpus}/{name}: " in line and words in line for line in said.splitlines()), said
    assert "--on-damage quarantine" in stopped.stderr
    assert "14 = 9 documents + 5 rejected" in done.stdout
    rejects = pq.read_table(tmp_path / "out" / "rejects.parquet").to_pylist()
    assert {(row["source"], row["reason"]) for row in rejects} == {
        (f"{corpus}/{name}", "damaged") for name in bad
    }
