from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import text_hash
from headrace.dataeng.shards import OpenShards
from headrace.tokenize.tokenizers import load
from tests.tokenize.jobs import CommandLine, file_hashes, some_texts

_COUNT_LISTS = """
import sys
from headrace.cli.main import main
from headrace.dataeng.storage import Store
real = Store.list
def counted(store, prefix=""):
    print(prefix or ".", file=sys.stderr)
    return real(store, prefix)
Store.list = counted
if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--progress", "none"]))
"""


def kill_group(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the whole process group, and wait until all of it is gone."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.005)
    raise AssertionError("the process group outlived SIGKILL")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def all_lineage(dataset: Path) -> list[dict[str, Any]]:
    opened = Dataset.open(dataset)
    rows: list[dict[str, Any]] = []
    for row in opened.shards.rows():
        rows += pq.read_table(dataset / row.lineage).to_pylist()
    return rows


@pytest.mark.parametrize("workers", ["2", "3"])
def test_law_4_any_number_of_workers_gives_the_same_bytes(
    command: CommandLine, finished: Path, tmp_path: Path, workers: str
) -> None:
    command.run(tmp_path / "out", "--workers", workers)
    assert file_hashes(tmp_path / "out") == file_hashes(finished)


def test_law_4_one_share_of_one_worker_gives_the_same_bytes(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    """Case A18: the least of every kind of parallelism; success is told only with the dataset there."""
    out = tmp_path / "out"
    command.run(out, "--workers", "1", "--shard-of", "0/1")
    assert not (out / "manifest.json").exists()
    command.run(out, "--workers", "1", "--finish")
    assert file_hashes(out) == file_hashes(finished)


def test_law_4_more_workers_and_shares_than_units_give_the_same_bytes(
    command: CommandLine, tmp_path: Path, tokenizer_file: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "the only document"}\n')
    one = CommandLine(tmp_path / "a.jsonl", tokenizer_file, ())
    one.run(tmp_path / "out", "--workers", "1")
    one.run(tmp_path / "workers", "--workers", "8")
    for share in ("1/3", "2/3", "0/3"):  # two of them have nothing to do
        one.run(tmp_path / "shares", "--workers", "8", "--shard-of", share)
    one.run(tmp_path / "shares", "--finish")
    wanted = file_hashes(tmp_path / "out")
    assert file_hashes(tmp_path / "workers") == file_hashes(tmp_path / "shares") == wanted


def test_a_tokenizer_that_was_used_before_the_workers_start_does_not_hang_them(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    """Case A10: its threads, and the locks they hold, are not copied into workers."""
    script = (
        "import sys; from tokenizers import Tokenizer; from headrace.cli.main import main; "
        "Tokenizer.from_file(sys.argv[1]).encode_batch(['some text'] * 1000); sys.exit(main(sys.argv[2:]))"
    )
    arguments = command.arguments(tmp_path / "out", "--workers", "2")[3:]
    subprocess.run(
        [sys.executable, "-c", script, str(command.tokenizer), *arguments],
        check=True,
        timeout=120,
        capture_output=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true"},
    )
    assert file_hashes(tmp_path / "out") == file_hashes(finished)


def test_law_4_the_shards_and_their_order_do_not_depend_on_compression(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    command.run(tmp_path / "out", "--workers", "2", "--compression", "zstd:3")
    plain, packed = Dataset.open(finished), Dataset.open(tmp_path / "out")
    assert packed.manifest.content_hash == plain.manifest.content_hash
    assert all(row.name.endswith(".mds.zstd") for row in packed.shards.rows())
    assert packed.manifest.hash != plain.manifest.hash


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers in /proc, which is Linux")
def test_law_6_a_killed_worker_is_named_with_its_file_and_the_same_command_continues(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = command.start(out, "--workers", "2")
    victim = None
    while victim is None:
        assert process.poll() is None, process.communicate()[1]
        # The first child is multiprocessing's resource tracker or a worker; workers run spawn_main.
        for child in children(process.pid):
            try:
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    victim = child
            except FileNotFoundError:
                continue
    os.kill(victim, signal.SIGKILL)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 3, messages
    assert "SIGKILL" in messages
    assert str(command.corpus) in messages
    assert not (out / "manifest.json").exists()
    command.run(out, "--workers", "2")
    assert file_hashes(out) == file_hashes(finished)


def start_and_interrupt(command: CommandLine, out: Path) -> subprocess.Popen[str]:
    """Ctrl-C, once, as soon as a unit is done."""
    process = command.start(out, "--workers", "2")
    while not list((out / "_units").glob("0*.json")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    return process


def test_law_6_ctrl_c_once_finishes_the_open_units_and_the_same_command_continues(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_and_interrupt(command, out)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "Traceback" not in messages, messages
    assert "and beginning no other" in messages
    assert not (out / "manifest.json").exists()
    files = file_hashes(out)
    recorded = {Path(name).stem for name in files if name.startswith("_units/0") and name.endswith(".json")}
    stored = {name.split(".")[1].split("-")[0] for name in files if name.startswith("shard.")}
    assert stored <= recorded, "no unit was broken off"
    assert not [name for name in files if ".tmp-" in name]
    command.run(out, "--workers", "2")
    assert file_hashes(out) == file_hashes(finished)


def test_law_6_ctrl_c_again_ends_at_once_with_130_and_the_same_command_continues(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_and_interrupt(command, out)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "Traceback" not in messages, messages
    assert not [name for name in file_hashes(out) if ".tmp-" in name]
    command.run(out, "--workers", "2")
    assert file_hashes(out) == file_hashes(finished)


def test_law_6_a_finished_unit_is_believed_by_its_bytes_not_by_its_name(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = command.start(out, "--workers", "1")
    while len(done := sorted((out / "_units").glob("0*.json"))) < 2:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    kill_group(process)
    record = json.loads(done[0].read_text())
    shard = out / record["shards"][0]["name"]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    done[1].write_bytes(done[1].read_bytes()[:40])
    command.run(out, "--workers", "1")
    assert file_hashes(out) == file_hashes(finished)


def test_law_5_every_row_is_a_document_or_a_reject_with_its_reason(
    command: CommandLine, finished: Path, tokenizer_file: Path
) -> None:
    reference = load(tokenizer_file.read_bytes(), "tokenizer.json")
    documents: dict[str, str] = {}
    rejects: Counter[tuple[str, str]] = Counter()
    for seed, name in enumerate(["a.parquet", "b.tfrecord", "c.parquet", "d.tfrecord"]):
        for number, text in enumerate(some_texts(seed, 120)):
            if text is None:
                rejects[name, "null" if name.endswith("parquet") else "no_text"] += 1
            elif not text.strip(" \t\n\r"):
                rejects[name, "blank" if text else "empty"] += 1
            else:
                documents[f"{name[0]}-{number}"] = text

    opened = Dataset.open(finished)
    table = pq.read_table(finished / "rejects.parquet").to_pylist()
    assert Counter((Path(row["source"]).name, row["reason"]) for row in table) == rejects
    lineage = all_lineage(finished)
    assert [row["document_id"] for row in lineage] == list(documents)
    shards = OpenShards(opened)
    position = 0
    for index, row in enumerate(opened.shards.rows()):
        for document in range(row.documents):
            text = documents[lineage[position]["document_id"]]
            ids = reference.encode(text, add_special_tokens=False).ids
            expected = [*ids, opened.manifest.tokenizer.eos_id]
            assert shards.get(index).tokens(document).tolist() == expected
            assert lineage[position]["tokens"] == len(expected)
            assert lineage[position]["text_bytes"] == len(text.encode())
            assert lineage[position]["text_hash"] == text_hash(text.encode())
            position += 1
    counts = opened.manifest.counts
    assert position == counts.documents == len(documents)
    assert counts.rows == 4 * 120 == counts.documents + rejects.total()
    assert counts.tokens == sum(row["tokens"] for row in lineage)


def test_law_5_text_that_spells_the_end_of_a_document_does_not_end_one(finished: Path) -> None:
    opened = Dataset.open(finished)
    eos = opened.manifest.tokenizer.eos_id
    shards = OpenShards(opened)
    for index, row in enumerate(opened.shards.rows()):
        for document in range(row.documents):
            tokens = shards.get(index).tokens(document).tolist()
            assert tokens.count(eos) == 1
            assert tokens[-1] == eos


def test_law_5_a_run_over_its_budget_publishes_nothing_and_another_budget_costs_nothing(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    failed = command.run(out, "--workers", "2", "--max-rejects", "0", code=1)
    for words in (
        "rows seen",
        "rejected",
        "empty: ",
        "null: ",
        "no_text: ",
        "--max-rejects",
        "row group 0, row 0",
    ):
        assert words in failed.stderr
    assert not (out / "manifest.json").exists()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("shard.*")}
    command.run(out, "--workers", "2")
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("shard.*")} == before
    assert file_hashes(out) == file_hashes(finished)


def test_law_5_no_dataset_without_a_document_is_published(tmp_path: Path, tokenizer_file: Path) -> None:
    from tests.tokenize.jobs import write_parquet

    corpus = tmp_path / "corpus"
    corpus.mkdir()
    write_parquet(corpus / "a.parquet", [None, "", " "])
    failed = CommandLine(corpus, tokenizer_file).run(tmp_path / "out", "--max-rejects", "1", code=1)
    assert "no document is left" in failed.stderr
    assert "3 rows seen, 0 kept, 3 rejected" in failed.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_the_same_job_again_says_that_it_is_complete_and_touches_nothing(
    command: CommandLine, finished: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.iterdir()}
    assert "was already complete" in command.run(finished, "--workers", "2").stdout
    assert json.loads(command.run(finished, "--json").stdout)["already_complete"] is True
    assert {path: path.stat().st_mtime_ns for path in finished.iterdir()} == before


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--shard-bytes", "8k", "shard_bytes: there 4096, here 8192"),
        ("--compression", "zstd", "compression: there 'none', here 'zstd:3'"),
        ("--eos", "none", "tokenizer.eos: there '<|endoftext|>', here None"),
        ("--id-column", "text", "config.id_column: there 'id', here 'text'"),
    ],
)
def test_another_job_in_the_directory_is_refused_and_what_differs_is_named(
    command: CommandLine, finished: Path, option: str, value: str, named: str
) -> None:
    before = file_hashes(finished)
    assert named in command.run(finished, option, value, code=2).stderr
    assert file_hashes(finished) == before


def test_changed_inputs_are_another_job(command: CommandLine, finished: Path, tmp_path: Path) -> None:
    other = CommandLine(Path(command.corpus) / "a.parquet", command.tokenizer)
    assert "inputs.digest" in other.run(finished, code=2).stderr


def test_a_directory_with_other_files_is_left_alone(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    assert "is not empty (thesis.txt)" in command.run(tmp_path, code=2).stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "thesis.txt"]


@pytest.mark.parametrize("below", ["", "out", "deep/er/out"])
def test_a_dataset_inside_its_sources_is_refused(command: CommandLine, below: str) -> None:
    """The run that continues would find shards among its sources, and no longer be the same job."""
    refused = command.run(Path(command.corpus) / below, code=2)
    assert "lies in the source" in refused.stderr
    assert {path.name for path in Path(command.corpus).iterdir()} == {
        "a.parquet", "b.tfrecord", "c.parquet", "d.tfrecord",
    }  # fmt: skip


def test_a_directory_with_very_many_files_is_not_listed_to_continue(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command.run(out, "--max-rejects", "0", code=1)
    names = subprocess.run(
        [sys.executable, "-c", _COUNT_LISTS, *command.arguments(out)[3:]],
        check=True, capture_output=True, text=True,
    ).stderr.split()  # fmt: skip
    assert names == ["_units", ".", "_scan", "_units"]  # records; what to sweep; the journal's end, twice
    assert file_hashes(out) == file_hashes(finished)


def test_two_jobs_do_not_write_to_one_directory(command: CommandLine, finished: Path, tmp_path: Path) -> None:
    import fcntl

    out = tmp_path / "out"
    out.mkdir()
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert "another process" in command.run(out, code=75).stderr
    os.close(descriptor)
    command.run(out)
    assert file_hashes(out) == file_hashes(finished)


def test_a_missing_file_of_a_complete_dataset_is_not_success(
    command: CommandLine, finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command.run(out, "--workers", "2")
    (out / "shard.000001-000.mds").unlink()
    assert "shard.000001-000.mds" in command.run(out, code=1).stderr


def test_the_order_of_the_sources_is_the_order_of_the_documents(
    command: CommandLine, tokenizer_file: Path, tmp_path: Path
) -> None:
    backwards = CommandLine(Path(command.corpus) / "a.parquet", tokenizer_file)
    backwards.run(tmp_path / "out", "--workers", "2", str(Path(command.corpus) / "b.tfrecord"))
    firsts = [row["document_id"][0] for row in all_lineage(tmp_path / "out")]
    assert sorted(firsts, reverse=True) == firsts
    assert set(firsts) == {"a", "b"}


def test_no_published_file_knows_how_or_where_it_was_made(finished: Path, tmp_path: Path) -> None:
    for path in finished.iterdir():
        data = path.read_bytes()
        assert str(finished).encode() not in data, path
        assert os.uname().nodename.encode() not in data or len(os.uname().nodename) < 6
