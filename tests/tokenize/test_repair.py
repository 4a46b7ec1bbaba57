"""`headrace tokenize --repair`: the bytes that were published, or nothing is changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.tokenize.verify import verify
from tests.s3 import S3Server
from tests.tokenize.dying import KILLED
from tests.tokenize.jobs import CommandLine, file_hashes, object_hashes, some_texts, write_parquet

# Which of the changes that the parent process makes is the last, done or (negative) not. A number from outside tries as many.
DEATHS = int(os.environ.get("HEADRACE_REPAIR_DEATHS", "0"))
LAST = [last for n in range(1, 1 + DEATHS) for last in (n, -n)] or [3, -4]


@pytest.fixture
def dataset(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished dataset, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "dataset"))


def flip(path: Path, at: int = 60) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def told(done: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str], int]:
    value = json.loads(done.stdout)
    return value["repaired"], value["left"], value["units_done_again"]


def test_law_4_only_the_damaged_units_are_done_again_and_the_bytes_are_those_published(
    command: CommandLine, finished: Path, dataset: Path
) -> None:
    rows = Dataset.open(dataset).shards.rows()
    flip(dataset / rows[1].name)
    (dataset / rows[4].lineage).unlink()
    assert rows[1].unit != rows[4].unit
    repaired, left, units = told(command.run(dataset, "--repair", "--json", "--workers", "1"))
    assert (repaired, left, units) == (sorted([rows[1].name, rows[4].lineage]), [], 2)
    assert file_hashes(dataset) == file_hashes(finished)
    assert "nothing to repair, 0 units done again" in command.run(dataset, "--repair").stdout


@pytest.mark.parametrize(
    "names",
    [["index.json", "tokenizer.json"], ["shards.parquet", "sources.parquet", "rejects.parquet"]],
    ids=" ".join,
)
def test_every_file_but_the_manifest_is_made_anew(
    command: CommandLine, finished: Path, dataset: Path, names: list[str]
) -> None:
    shard = Dataset.open(dataset).shards.row(2).name
    flip(dataset / shard)
    for name in names[:1]:
        flip(dataset / name, 40)
    for name in names[1:]:
        (dataset / name).unlink()
    repaired, left, _ = told(command.run(dataset, "--repair", "--json"))
    assert (sorted(repaired), left) == (sorted([*names, shard]), [])
    assert file_hashes(dataset) == file_hashes(finished)


def test_law_6_a_repair_killed_at_any_change_leaves_a_dataset_that_another_repairs(
    command: CommandLine, finished: Path, dataset: Path, tmp_path: Path
) -> None:
    row = Dataset.open(dataset).shards.row(2)
    flip(dataset / row.name)
    flip(dataset / row.lineage)
    flip(dataset / "tokenizer.json")
    for last in LAST:
        torn = Path(shutil.copytree(dataset, tmp_path / f"torn{last}"))
        arguments = command.arguments(torn, "--repair", "--workers", "1")[3:]
        dying = [sys.executable, "-m", "tests.tokenize.dying", str(last), *arguments]
        code = subprocess.run(dying, capture_output=True, timeout=120, check=False).returncode
        assert code == KILLED or (code == 0 and abs(last) > 4), "there are four changes at least"
        command.run(torn, "--repair", "--workers", "1")
        assert file_hashes(torn) == file_hashes(finished), f"killed at change {last}"


def test_what_a_killed_repair_left_is_removed_by_the_plain_command(
    command: CommandLine, finished: Path, dataset: Path
) -> None:
    (dataset / "_repair" / "_units").mkdir(parents=True)
    (dataset / "_repair" / "_units" / "job.json").write_text("{}")
    (dataset / "_repair" / ".tmp-0123-shard.000001-000.mds").write_text("half")
    command.run(dataset)
    assert file_hashes(dataset) == file_hashes(finished)


def test_sources_that_changed_unseen_change_nothing(tmp_path: Path, tokenizer_file: Path) -> None:
    """A file of lines is told by blocks spread over it (docs/formats/dataset.md), so a change between them is not seen."""
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"text": f"line {n:05} " + "x" * 80}) + "\n" for n in range(8000)))
    command = CommandLine(source, tokenizer_file, ("--shard-bytes", "64k"))
    out = tmp_path / "out"
    command.run(out)
    row = Dataset.open(out).shards.row(2)  # lines 700 to 1,000
    flip(out / row.name, row.raw_bytes - 8)
    before = file_hashes(out)
    data = bytearray(source.read_bytes())
    at = data.index(b"line 00900")
    data[at : at + 4] = b"LINE"
    source.write_bytes(data)
    done = command.run(out, "--repair", code=1)
    assert "would be other bytes than were published, so nothing was replaced" in done.stderr
    assert file_hashes(out) == before
    data[at : at + 4] = b"line"
    source.write_bytes(data)
    command.run(out, "--repair")
    assert verify(str(out)).ok


def test_each_command_repairs_what_it_made_of_a_dataset_that_grew(
    command: CommandLine, finished: Path, dataset: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.parquet"
    write_parquet(more, some_texts(7, 90))

    def append(*options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        arguments = ["--onto", str(dataset), "--max-rejects", "0.3", *options, str(more)]
        line = [sys.executable, "-m", "headrace", "tokenize", *arguments]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr
        return done

    append()
    whole = file_hashes(dataset)
    rows = Dataset.open(dataset).shards.rows()
    flip(dataset / rows[0].name)
    flip(dataset / rows[-1].name)
    assert told(append("--repair", "--json", code=1)) == ([rows[-1].name], [rows[0].name], 1)
    assert told(command.run(dataset, "--repair", "--json")) == ([rows[0].name], [], 1)
    assert file_hashes(dataset) == whole


def test_a_unit_that_lost_duplicates_is_made_anew_without_them(tmp_path: Path, tokenizer_file: Path) -> None:
    for name in ("a", "b"):  # every document of b but one repeats one of a
        texts: list[str | None] = [f"document {n} " * 40 for n in range(120)]
        write_parquet(tmp_path / f"{name}.parquet", [*texts, f"only in {name}"])
    options = ("--dedup", "exact", "--workers", "1", "--shard-bytes", "4k")
    command = CommandLine(f"{tmp_path}/*.parquet", tokenizer_file, options)
    out = tmp_path / "out"
    command.run(out)
    before = file_hashes(out)
    for row in Dataset.open(out).shards.rows():
        flip(out / row.name)
    command.run(out, "--repair")
    assert file_hashes(out) == before


def test_only_the_command_that_made_a_dataset_repairs_it(
    command: CommandLine, dataset: Path, tmp_path: Path
) -> None:
    before = file_hashes(dataset)
    assert "holds another tokenization" in command.run(dataset, "--repair", "--eos", "none", code=2).stderr
    assert file_hashes(dataset) == before
    assert "holds no dataset" in command.run(tmp_path / "nowhere", "--repair", code=2).stderr


def test_a_complete_dataset_is_looked_at_and_what_is_short_is_named(
    command: CommandLine, finished: Path, dataset: Path
) -> None:
    row = Dataset.open(dataset).shards.row(1)
    assert "`headrace verify` reads and hashes them all" in command.run(dataset).stderr
    path = dataset / row.name
    path.write_bytes(path.read_bytes()[:-1])
    said = command.run(dataset, code=1).stderr
    assert f"{row.name} has {row.stored_bytes - 1:,} bytes, {row.stored_bytes:,} were written" in said
    assert "--repair" in said
    (dataset / row.lineage).write_bytes(b"")
    assert f"{row.lineage} has 0 bytes" in command.run(dataset, code=1).stderr
    command.run(dataset, "--repair")
    assert file_hashes(dataset) == file_hashes(finished)


@pytest.mark.s3
def test_law_10_a_dataset_on_s3_is_repaired_likewise(
    command: CommandLine, finished: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    out, filesystem = f"{s3_bucket}/dataset", s3_server.filesystem()
    filesystem.put(str(finished), out.removeprefix("s3://"), recursive=True)
    row = Dataset.open(finished).shards.row(2)
    key = f"{out}/{row.name}".removeprefix("s3://")
    filesystem.pipe_file(key, b"\xff" * row.stored_bytes)
    filesystem.rm_file(f"{out}/{row.lineage}".removeprefix("s3://"))
    filesystem.invalidate_cache()
    repaired, left, units = told(command.run(out, "--repair", "--json", "--workers", "1"))
    assert (sorted(repaired), left, units) == (sorted([row.name, row.lineage]), [], 1)
    filesystem.invalidate_cache()
    assert object_hashes(s3_server, out) == file_hashes(finished)
