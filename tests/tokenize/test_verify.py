from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from headrace.cli.main import main
from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, SHARDS, FileEntry, content_hash
from headrace.manifests.shard_table import ShardTable
from headrace.tokenize.verify import Looked, Report, verify
from tests.tokenize.jobs import CommandLine


@pytest.fixture
def dataset(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished dataset, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "dataset"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def only_problem(report: Report) -> tuple[str, str, list[int]]:
    (problem,) = report.problems
    return problem.file, problem.problem, [entry["document"] for entry in problem.documents]


def test_an_intact_dataset_is_intact(finished: Path) -> None:
    report = verify(str(finished), threads=2)
    assert report.ok
    assert report.bytes == sum(
        path.stat().st_size
        for path in finished.iterdir()
        if "lineage" not in path.name and path.name not in ("manifest.json", "index.json")
    )


def test_a_compressed_dataset_is_verified_through_its_compression(
    command: CommandLine, tmp_path: Path
) -> None:
    command.run(tmp_path / "out", "--compression", "zstd:1")
    assert verify(str(tmp_path / "out")).ok
    name = Dataset.open(tmp_path / "out").shards.row(1).name
    flip(tmp_path / "out" / name, 60)
    file, _, documents = only_problem(verify(str(tmp_path / "out")))
    assert file == name
    assert documents == list(range(Dataset.open(tmp_path / "out").shards.row(1).documents))


def test_damage_behind_the_data_of_a_compressed_shard_leaves_its_documents_alone(
    command: CommandLine, tmp_path: Path
) -> None:
    command.run(tmp_path / "out", "--compression", "zstd:1")
    row = Dataset.open(tmp_path / "out").shards.row(0)
    flip(tmp_path / "out" / row.name, row.stored_bytes - 1)  # of zstd's own checksum
    _, problem, documents = only_problem(verify(str(tmp_path / "out")))
    assert "all tokens are as they were" in problem
    assert documents == []


def test_a_flipped_token_is_named_down_to_its_document(dataset: Path) -> None:
    row = Dataset.open(dataset).shards.row(2)
    assert row.documents > 2
    flip(dataset / row.name, row.raw_bytes - 8)
    file, problem, documents = only_problem(verify(str(dataset)))
    assert (file, documents) == (row.name, [row.documents - 1])
    assert "SHA-256" in problem
    lineage = pq.read_table(dataset / row.lineage).to_pylist()[-1]
    (found,) = verify(str(dataset)).problems[0].documents
    assert (found["source"], found["row"], found["document_id"]) == (
        lineage["source"], lineage["row"], lineage["document_id"]
    )  # fmt: skip


def test_a_damaged_table_of_offsets_is_told_from_damaged_tokens(dataset: Path) -> None:
    row = Dataset.open(dataset).shards.row(2)
    flip(dataset / row.name, 9)
    (problem,) = verify(str(dataset)).problems
    assert (problem.file, problem.num_documents) == (row.name, 0)
    assert "all tokens are as they were" in problem.problem


def test_what_was_found_intact_is_not_read_again_and_the_file_goes_when_all_is(
    dataset: Path, tmp_path: Path
) -> None:
    opened, state = Dataset.open(dataset), str(tmp_path / "state")
    row, other = opened.shards.row(1), opened.shards.row(3)
    good = (dataset / row.name).read_bytes()
    flip(dataset / row.name, row.raw_bytes - 8)
    looks: list[int] = []
    report = verify(str(dataset), state=state, on_look=lambda looked: looks.append(looked.shards))
    assert [problem.file for problem in report.problems] == [row.name]
    assert looks == list(range(1, opened.shards.num_shards + 1))
    # What it had found intact is believed; what was damaged is not.
    (dataset / row.name).write_bytes(good)
    flip(dataset / other.name, 60)
    again = verify(str(dataset), state=state)
    assert (again.ok, again.believed) == (True, opened.shards.num_shards - 1)
    assert not Path(state).exists()
    assert [problem.file for problem in verify(str(dataset), state=state).problems] == [other.name]


def test_an_interrupted_verification_goes_on_from_its_file(dataset: Path, tmp_path: Path) -> None:
    state, num_shards = str(tmp_path / "state"), Dataset.open(dataset).shards.num_shards

    class Stop(Exception):
        pass

    def stop(looked: Looked) -> None:
        if looked.shards == 5:
            raise Stop

    with pytest.raises(Stop):
        verify(str(dataset), state=state, threads=1, on_look=stop)
    report = verify(str(dataset), state=state)
    assert (report.ok, report.believed, report.shards) == (True, 5, num_shards)


def test_a_report_stays_small_however_much_is_lost(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.tokenize.suspects.LISTED", 2)
    monkeypatch.setattr("headrace.tokenize.verify._LISTED_IN_ALL", 4)
    for row in Dataset.open(dataset).shards.rows():
        (dataset / row.name).unlink()
    problems = verify(str(dataset)).problems
    assert (
        sum(problem.num_documents for problem in problems) == Dataset.open(dataset).manifest.counts.documents
    )
    assert [len(problem.documents) for problem in problems[:4]] == [2, 2, 2, 0]
    assert all(problem.problem == "missing" for problem in problems)


def test_every_file_that_is_damaged_or_missing_is_named(dataset: Path) -> None:
    row, other = Dataset.open(dataset).shards.row(0), Dataset.open(dataset).shards.row(1)
    flip(dataset / "tokenizer.json", 100)
    flip(dataset / "index.json", 100)
    flip(dataset / row.lineage, 100)
    (dataset / "rejects.parquet").unlink()
    (dataset / other.name).unlink()
    (dataset / "sources.parquet").write_bytes(b"")
    report = verify(str(dataset))
    assert {problem.file for problem in report.problems} == {
        "tokenizer.json", "index.json", row.lineage, "rejects.parquet", other.name, "sources.parquet"
    }  # fmt: skip


def test_a_damaged_shard_is_reported_though_the_tokenizer_is_damaged_too(dataset: Path) -> None:
    row = Dataset.open(dataset).shards.row(0)
    flip(dataset / row.name, row.raw_bytes - 8)
    (dataset / "tokenizer.json").write_bytes(b"{")
    problems = {problem.file: problem.num_documents for problem in verify(str(dataset)).problems}
    assert problems == {"tokenizer.json": 0, row.name: row.documents}


def test_a_truncated_shard_names_its_documents(dataset: Path) -> None:
    row = Dataset.open(dataset).shards.row(0)
    path = dataset / row.name
    path.write_bytes(path.read_bytes()[:-10])
    file, problem, documents = only_problem(verify(str(dataset)))
    assert (file, documents) == (row.name, [row.documents - 1])
    assert "bytes" in problem


def test_a_damaged_table_or_manifest_ends_the_verification(dataset: Path) -> None:
    flip(dataset / "shards.parquet", 40)
    with pytest.raises(DamageError, match=r"shards\.parquet"):
        verify(str(dataset))
    (dataset / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"manifest\.json does not exist"):
        verify(str(dataset))


@pytest.mark.parametrize(("file", "data"), [("sources.parquet", b"PAR1"), ("rejects.parquet", b"")])
def test_a_table_that_is_none_although_its_hash_is_right_is_a_problem(
    dataset: Path, file: str, data: bytes
) -> None:
    manifest = Dataset.open(dataset).manifest
    entry = FileEntry(bytes=len(data), sha256=sha256_hex(data))
    (dataset / file).write_bytes(data)
    (dataset / MANIFEST).write_bytes(replace(manifest, files=manifest.files | {file: entry}).to_bytes())
    assert only_problem(verify(str(dataset)))[0] == file


def test_two_hashes_for_one_uncompressed_file_are_a_problem(dataset: Path) -> None:
    """The loader reads such a shard by the one, `verify` by the other."""
    opened = Dataset.open(dataset)
    rows = opened.shards.rows()
    table = ShardTable.from_rows([replace(rows[0], raw_sha256="00" * 32), *rows[1:]])
    data = table.to_parquet()
    (dataset / SHARDS).write_bytes(data)
    manifest = replace(
        opened.manifest,
        files=opened.manifest.files | {SHARDS: FileEntry(bytes=len(data), sha256=sha256_hex(data))},
        shards_digest=table.digest,
        content_hash=content_hash(opened.manifest.tokenizer, opened.manifest.dtype, table),
    )
    (dataset / MANIFEST).write_bytes(manifest.to_bytes())
    assert rows[0].name in {problem.file for problem in verify(str(dataset)).problems}


def test_a_digest_of_another_shard_table_is_a_problem(dataset: Path) -> None:
    """Opening trusts the hash of the table's file and the content hash, and leaves this one to `verify`."""
    manifest = Dataset.open(dataset).manifest
    (dataset / MANIFEST).write_bytes(replace(manifest, shards_digest="00" * 32).to_bytes())
    assert only_problem(verify(str(dataset)))[:2] == (
        "manifest.json",
        "its shards_digest does not follow from the shard table",
    )


def test_a_flipped_id_of_an_adopted_dataset_is_named_without_a_tokenizer(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(5_000, dtype=np.uint16) % 300)
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--vocab-size", "300", "--document-tokens", "100", "--workers", "1"]
    assert main(["adopt", *arguments, str(tmp_path / "ids.npy")]) == 0
    row = Dataset.open(out).shards.row(0)
    flip(out / row.name, row.raw_bytes - 8)
    _, _, documents = only_problem(verify(str(out)))
    assert documents == [49]
