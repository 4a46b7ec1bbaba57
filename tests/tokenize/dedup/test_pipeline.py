"""`headrace tokenize --dedup`, as a user runs it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace.dataeng.dataset import Dataset
from tests.s3 import S3Server
from tests.tokenize.dying import KILLED
from tests.tokenize.jobs import (
    CommandLine,
    file_hashes,
    object_hashes,
    some_texts,
    write_parquet,
    write_tfrecord,
)
from tests.tokenize.test_pipeline import kill_group

KILLS = int(os.environ.get("HEADRACE_KILLS", "4"))
NEAR = ("--dedup", "near")


def variants(seed: int, count: int) -> list[str | None]:
    """Odd texts, each perhaps again as it is, in other case, or with a word changed."""
    draw = random.Random(seed)
    texts: list[str | None] = []
    for text in some_texts(7, count):  # the same for every seed, so that files repeat each other
        texts.append(text)
        if text and draw.random() < 0.5:
            words = text.split(" ")
            words[draw.randrange(len(words))] = "changed"
            texts.append(draw.choice([text, text.upper(), " ".join(words)]))
    draw.shuffle(texts)
    return texts


@pytest.fixture(scope="module")
def repetitive(tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path) -> CommandLine:
    corpus = tmp_path_factory.mktemp("inputs") / "corpus"
    corpus.mkdir()
    for seed, name in enumerate(["a.parquet", "b.tfrecord", "c.parquet"]):
        (write_parquet if name.endswith("parquet") else write_tfrecord)(corpus / name, variants(seed, 60))
    options = ("--shard-bytes", "2k", "--id-column", "id", "--max-rejects", "0.2", "--workers", "2")
    return CommandLine(corpus, tokenizer_file, options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, repetitive: CommandLine) -> Path:
    """Done by one worker, without interruption. Read only."""
    out = tmp_path_factory.mktemp("whole") / "dataset"
    repetitive.run(out, *NEAR, "--workers", "1")
    return out


def rejects(dataset: Path) -> list[dict[str, Any]]:
    return pq.read_table(dataset / "rejects.parquet").to_pylist()  # type: ignore[no-any-return]


def documents(dataset: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for row in Dataset.open(dataset).shards.rows():
        rows += pq.read_table(dataset / row.lineage).to_pylist()
    return rows


def place(row: dict[str, Any], prefix: str = "") -> tuple[str, int, int]:
    group = row[f"{prefix}row_group"]
    return Path(row[f"{prefix}source"]).name, -1 if group is None else group, row[f"{prefix}row"]


def test_law_5_every_duplicate_is_named_with_the_earlier_document_that_it_repeats(
    repetitive: CommandLine, whole: Path
) -> None:
    manifest = Dataset.open(whole).manifest
    assert manifest.config["dedup"]["kind"] == "near"
    assert manifest.software["rensa"]
    found = rejects(whole)
    assert len(found) == manifest.counts.rejected
    duplicates = [row for row in found if row["reason"] in ("duplicate", "near_duplicate")]
    assert {row["reason"] for row in duplicates} == {"duplicate", "near_duplicate"}
    there = {place(row) for row in [*documents(whole), *found]}
    for row in found:
        if row in duplicates:
            assert place(row, "original_") < place(row)
            assert place(row, "original_") in there
        else:
            assert row["original_source"] is row["original_row_group"] is row["original_row"] is None


def test_no_text_is_there_twice_and_every_text_is_there(repetitive: CommandLine, tmp_path: Path) -> None:
    repetitive.run(tmp_path / "all")
    repetitive.run(tmp_path / "exact", "--dedup", "exact")
    everything = [row["text_hash"] for row in documents(tmp_path / "all")]
    kept = [row["text_hash"] for row in documents(tmp_path / "exact")]
    assert len(everything) > len(set(everything))
    assert kept == list(dict.fromkeys(everything))  # the first of each, in order
    assert {row["reason"] for row in rejects(tmp_path / "exact")} >= {"duplicate"}


def test_law_4_another_number_of_workers_finds_the_same_duplicates(
    repetitive: CommandLine, whole: Path, tmp_path: Path
) -> None:
    repetitive.run(tmp_path / "out", *NEAR, "--workers", "3")
    assert file_hashes(tmp_path / "out") == file_hashes(whole)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are of POSIX")
def test_law_6_kills_while_it_scans_decides_or_tokenizes_change_nothing(
    repetitive: CommandLine, whole: Path, tmp_path: Path
) -> None:
    begun = time.monotonic()
    repetitive.run(tmp_path / "alone", *NEAR)
    seconds, draw = time.monotonic() - begun, random.Random(5)
    kills = attempt = 0
    while kills < KILLS:
        out = tmp_path / f"{attempt}"
        process = repetitive.start(out, *NEAR)
        try:
            process.wait(draw.uniform(0.1, 1.1) * seconds)
        except subprocess.TimeoutExpired:
            kill_group(process)
            kills += 1
            continue
        _, said = process.communicate()
        assert process.returncode == 0, said
        assert file_hashes(out) == file_hashes(whole)
        attempt += 1  # begin another
    repetitive.run(tmp_path / f"{attempt}", *NEAR)
    assert file_hashes(tmp_path / f"{attempt}") == file_hashes(whole)


@pytest.mark.parametrize("change", [9, 18, -30])
def test_law_6_a_driver_that_dies_at_a_change_of_the_store_changes_nothing(
    repetitive: CommandLine, whole: Path, tmp_path: Path, change: int
) -> None:
    """Of the driver's changes, the first ones are the decision's and the last ones the publication's."""
    out = tmp_path / "out"
    arguments = repetitive.arguments(out, *NEAR)[3:]
    dying = [sys.executable, "-m", "tests.tokenize.dying", str(change), *arguments]
    done = subprocess.run(dying, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == KILLED, done.stderr
    repetitive.run(out, *NEAR)
    assert file_hashes(out) == file_hashes(whole)


def test_law_4_shares_scan_then_one_decides_then_shares_tokenize(
    repetitive: CommandLine, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert "units are not scanned (0, " in repetitive.run(out, *NEAR, "--shard-of", "0/2", code=75).stderr
    told = repetitive.run(out, *NEAR, "--shard-of", "0/2", "--scan").stdout
    assert "are scanned" in told
    assert "units are not scanned (1, 3" in repetitive.run(out, *NEAR, "--finish", "--scan", code=75).stderr
    repetitive.run(out, *NEAR, "--shard-of", "1/2", "--scan")
    assert "--finish --scan" in repetitive.run(out, *NEAR, "--shard-of", "0/2", code=75).stderr
    counts = json.loads(repetitive.run(out, *NEAR, "--finish", "--scan", "--json").stdout)
    manifest = Dataset.open(whole).manifest
    assert counts == {
        "duplicates": manifest.rejects["duplicate"],
        "near_duplicates": manifest.rejects["near_duplicate"],
    }
    for share in ("0/2", "1/2"):
        repetitive.run(out, *NEAR, "--shard-of", share)
    repetitive.run(out, *NEAR, "--finish")
    assert file_hashes(out) == file_hashes(whole)


def test_a_file_that_changes_between_the_passes_is_noticed_and_read_again(
    tokenizer_file: Path, tmp_path: Path
) -> None:
    source = tmp_path / "big.jsonl"
    lines = [json.dumps({"text": f"{number} flows down the channel"}) for number in range(30_000)]
    source.write_text("\n".join(lines))
    job = CommandLine(source, tokenizer_file, ("--shard-bytes", "1m", "--dedup", "exact"))
    out = tmp_path / "out"
    job.run(out, "--shard-of", "0/1", "--scan")
    job.run(out, "--finish", "--scan")
    lines[3000] = lines[2999]  # as long, and at none of the places that the fingerprint looks at
    source.write_text("\n".join(lines))
    said = job.run(out, code=2).stderr
    assert "big.jsonl" in said
    assert "other documents than when duplicates were looked for" in said
    job.run(out)
    job.run(tmp_path / "anew")
    assert file_hashes(out) == file_hashes(tmp_path / "anew")
    assert Dataset.open(out).manifest.rejects == {"duplicate": 1}


@pytest.mark.s3
def test_law_10_the_same_duplicates_on_an_object_store(
    repetitive: CommandLine, whole: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    uri = f"{s3_bucket}/dedup"
    environment = {**os.environ, **s3_server.environment}
    process = subprocess.Popen(
        repetitive.arguments(uri, *NEAR), env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = subprocess.run(
        repetitive.arguments(uri, *NEAR),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert object_hashes(s3_server, uri) == {
        name: digest for name, digest in file_hashes(whole).items() if not name.endswith("/")
    }


def test_what_does_not_go_together_is_said(repetitive: CommandLine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert (
        "expected a similarity from 0.5 to 1"
        in repetitive.run(out, *NEAR, "--dedup-threshold", "0.2", code=2).stderr
    )
    assert "give --dedup near" in repetitive.run(out, "--dedup-threshold", "0.9", code=2).stderr
    assert "give --shard-of I/N or --finish" in repetitive.run(out, *NEAR, "--scan", code=2).stderr
    assert "give --dedup exact or near" in repetitive.run(out, "--finish", "--scan", code=2).stderr
    assert not out.exists()


def test_law_3_what_is_added_repeats_nothing_that_is_there_and_changes_nothing_of_it(
    repetitive: CommandLine, tmp_path: Path
) -> None:
    exact, out = ("--dedup", "exact"), tmp_path / "out"
    more = tmp_path / "more.parquet"
    write_parquet(more, [*variants(9, 60), "said nowhere else", "said nowhere else"])
    repetitive.run(out, *exact)
    before = file_hashes(out)
    there = {row["text_hash"]: place(row) for row in documents(out)}
    added = CommandLine(more, repetitive.tokenizer, ("--max-rejects", "0.2", *exact))
    arguments = [*added.arguments(out)[:4], "--onto", *added.arguments(out)[5:]]
    tokenizer = arguments.index("--tokenizer")
    del arguments[tokenizer : tokenizer + 2]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    hashes = [row["text_hash"] for row in documents(out)]
    assert len(hashes) == len(set(hashes))
    assert hashes[: len(there)] == list(there)
    version = Dataset.open(out)
    rows = pq.read_table(out / version.manifest.stored_name("rejects.parquet")).to_pylist()
    repeats = [row for row in rows if row["source"] == str(more) and row["reason"] == "duplicate"]
    old = [row for row in repeats if row["original_source"] != str(more)]
    assert len(old) > 50
    assert {place(row, "original_") for row in old} <= set(there.values())
    assert len(old) < len(repeats)
    after = file_hashes(out)
    assert {name: after[name] for name in before if name.startswith("shard.")} == {
        name: digest for name, digest in before.items() if name.startswith("shard.")
    }
