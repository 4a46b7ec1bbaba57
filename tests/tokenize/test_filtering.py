"""Filters in a whole job: what they reject is accounted for, is not a fault, and decides which job it is."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import text_hash
from headrace.tokenize.filters.reasons import was_asked_for
from headrace.tokenize.survey import document_by_number
from headrace.tokenize.verify import verify
from tests.s3 import S3Server
from tests.tokenize.jobs import EOS, CommandLine, file_hashes, object_hashes, some_texts

FILTERS = ("--min-chars", "40", "--max-chars", "400")


@pytest.fixture(scope="module")
def filtering(command: CommandLine) -> CommandLine:
    """The odd corpus, with a filter that rejects much of it."""
    return replace(command, options=(*command.options, *FILTERS))


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory, filtering: CommandLine) -> Path:
    out = tmp_path_factory.mktemp("filtered") / "dataset"
    filtering.run(out, "--workers", "1")
    return out


def expected_reasons() -> dict[tuple[str, int], str | None]:
    """By file and number of the document: why it is left out, or None."""
    found: dict[tuple[str, int], str | None] = {}
    for seed, name in enumerate(["a.parquet", "b.tfrecord", "c.parquet", "d.tfrecord"]):
        for number, text in enumerate(some_texts(seed, 120)):
            reason = None
            if text is None:
                reason = "null" if name.endswith("parquet") else "no_text"
            elif not text.strip(" \t\n\r"):
                reason = "blank" if text else "empty"
            elif len(text) < 40:
                reason = "length:short"
            elif len(text) > 400:
                reason = "length:long"
            found[name, number] = reason
    return found


def test_law_5_what_a_filter_rejects_is_listed_with_its_reason_and_counted(filtered: Path) -> None:
    manifest = Dataset.open(filtered).manifest
    expected = expected_reasons()
    reasons = sorted(reason for reason in expected.values() if reason is not None)
    assert manifest.rejects == {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    assert manifest.rejects["length:short"] > 10
    assert manifest.rejects["length:long"] > 10
    assert manifest.counts.rows == manifest.counts.documents + len(reasons) == 480
    found = pq.read_table(filtered / "rejects.parquet").to_pylist()
    # 16 rows are a row group of the Parquet files.
    numbered = {
        (Path(row["source"]).name, 16 * (row["row_group"] or 0) + row["row"]): row["reason"] for row in found
    }
    assert numbered == {row: reason for row, reason in expected.items() if reason is not None}


def test_filters_stand_in_the_manifest_and_a_job_without_any_says_nothing_of_them(
    filtered: Path, finished: Path
) -> None:
    assert Dataset.open(filtered).manifest.config["filters"] == {"min_chars": 40, "max_chars": 400}
    assert "filters" not in Dataset.open(finished).manifest.config


def test_the_budget_counts_faults_and_not_what_a_filter_rejects(
    filtering: CommandLine, tmp_path: Path
) -> None:
    """Those are more than half of the rows; that the job of `filtered` was published with a budget of a fifth says the rest."""
    expected = expected_reasons().values()
    faults = sum(reason is not None and not reason.startswith("length:") for reason in expected)
    failed = filtering.run(tmp_path / "out", "--max-rejects", "0", code=1)
    assert f"{faults / 480:.2%} of the rows were rejected for faults" in failed.stderr
    rejected = sum(reason is not None for reason in expected)
    assert f"{rejected:,} rejected, {rejected - faults:,} of them by filters" in failed.stderr
    example = failed.stderr.partition("The first of them:\n")[2].splitlines()[0]
    assert example.endswith("a.parquet: row group 0, row 0: null")


def test_other_filters_are_another_job(filtering: CommandLine, filtered: Path) -> None:
    refused = replace(filtering, options=filtering.options[:-1]).run(filtered, "401", code=2)
    assert "config.filters.max_chars: there 400, here 401" in refused.stderr


def test_law_5_when_filters_leave_nothing_nothing_is_published(command: CommandLine, tmp_path: Path) -> None:
    failed = command.run(tmp_path / "out", "--min-chars", "1000000", code=1)
    assert "no document is left" in failed.stderr
    assert "length:short: " in failed.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()


KILLED_RUNS = int(os.environ.get("HEADRACE_FILTER_KILLS", "2"))
HOOK = """
import re

def clean(texts):
    return [None if "huge" in text else re.sub("[aeiou]", "*", text) for text in texts]
"""


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory, command: CommandLine) -> tuple[CommandLine, Path]:
    """A job with a hook, whose module lies in the working directory, and its dataset."""
    directory = tmp_path_factory.mktemp("hooked")
    (directory / "vowels.py").write_text(HOOK)
    job = replace(command, options=(*command.options, "--hook", "vowels:clean"), directory=directory)
    job.run(directory / "dataset", "--workers", "1")
    return job, directory / "dataset"


def test_what_a_hook_makes_of_a_text_is_what_is_tokenized_and_hashed(
    hooked: tuple[CommandLine, Path],
) -> None:
    out = hooked[1]
    assert Dataset.open(out).manifest.rejects["hook"] == 4
    assert verify(str(out)).ok
    texts = [text for text in some_texts(0, 120) if text and text.strip(" \t\n\r") and "huge" not in text]
    shown = document_by_number(Dataset.open(out), 0)
    assert shown.text.removesuffix(EOS) == re.sub("[aeiou]", "*", texts[0])
    made = shown.text.removesuffix(EOS).encode()
    assert shown.lineage["text_bytes"] == len(made)
    assert shown.lineage["text_hash"] == text_hash(made).hex()


def test_a_changed_hook_is_another_job(hooked: tuple[CommandLine, Path], tmp_path: Path) -> None:
    job, out = hooked
    (tmp_path / "vowels.py").write_text(HOOK + "\n# changed\n")
    refused = replace(job, directory=tmp_path).run(out, code=2)
    assert "config.filters.hook_sha256: there " in refused.stderr


def test_what_a_hook_prints_is_not_in_the_outcome(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(
        "def clean(texts):\n    print('look at me', flush=True)\n    return texts\n"
    )
    job = replace(command, options=(*command.options, "--hook", "chatty:clean"), directory=tmp_path)
    done = job.run(tmp_path / "out", "--json")
    assert json.loads(done.stdout)["counts"]["documents"]
    assert "look at me" in done.stderr


def test_a_hook_that_raises_stops_the_job_and_names_the_document(
    command: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "raises.py").write_text(
        "def clean(texts):\n    return [str(1 / len(t[:-1])) for t in texts]\n"
    )
    failed = replace(command, directory=tmp_path).run(tmp_path / "out", "--hook", "raises:clean", code=2)
    assert "row" in failed.stderr
    assert "ZeroDivisionError" in failed.stderr
    assert "raises.py:2" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.fixture(scope="module")
def everything(
    tmp_path_factory: pytest.TempPathFactory, command: CommandLine
) -> tuple[CommandLine, Path, float]:
    """A job with every filter, its dataset, and how long it took."""
    directory = tmp_path_factory.mktemp("everything")
    (directory / "vowels.py").write_text(HOOK)
    (directory / "rules.json").write_text('{"max_top_2gram_chars": 0.1, "min_lettered_words": 0.5}')
    sought = next(text for text in some_texts(2, 120) if text and text.count(" ") > 90)
    (directory / "exam.jsonl").write_text(json.dumps({"question": re.sub("[aeiou]", "*", sought)}) + "\n")
    options = (
        *("--hook", "vowels:clean"),
        *("--min-chars", "10"),
        *("--quality", "rules.json"),
        *("--decontaminate", "exam.jsonl", "--decontaminate-column", "question"),
    )
    job = replace(command, options=(*command.options, *options), directory=directory)
    begun = time.monotonic()
    job.run(directory / "dataset", "--workers", "1")
    return job, directory / "dataset", time.monotonic() - begun


def test_every_filter_has_its_reasons_in_the_manifest(everything: tuple[CommandLine, Path, float]) -> None:
    manifest = Dataset.open(everything[1]).manifest
    filtered = {reason for reason in manifest.rejects if was_asked_for(reason)}
    assert filtered == {
        "hook",
        "length:short",
        "quality:max_top_2gram_chars",
        "contaminated:exam.jsonl",
    }
    assert manifest.rejects["contaminated:exam.jsonl"] == 1
    assert manifest.config["filters"]["quality"] == {"max_top_2gram_chars": 0.1, "min_lettered_words": 0.5}
    assert manifest.config["filters"]["decontamination"]["evaluations"][0]["name"] == "exam.jsonl"


def test_law_4_filters_give_the_same_bytes_with_three_workers(
    everything: tuple[CommandLine, Path, float], tmp_path: Path
) -> None:
    """Two workers are those of the object store, below."""
    job, out, _ = everything
    job.run(tmp_path / "out", "--workers", "3")
    assert file_hashes(tmp_path / "out") == file_hashes(out)


@pytest.mark.s3
def test_law_10_an_evaluation_and_a_dataset_on_an_object_store_give_the_same_bytes(
    everything: tuple[CommandLine, Path, float], s3_bucket: str, s3_server: S3Server
) -> None:
    job, out, _ = everything
    assert job.directory is not None
    exam = f"{s3_bucket}/evaluations/exam.jsonl"
    s3_server.filesystem().pipe_file(exam.removeprefix("s3://"), (job.directory / "exam.jsonl").read_bytes())
    options = tuple(exam if option == "exam.jsonl" else option for option in job.options)
    replace(job, options=options).run(f"{s3_bucket}/out", "--workers", "2")
    assert object_hashes(s3_server, f"{s3_bucket}/out") == file_hashes(out)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_law_4_and_6_kill_9_at_random_instants_changes_nothing_that_filters_do(
    everything: tuple[CommandLine, Path, float], tmp_path: Path
) -> None:
    job, out, whole_run = everything
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    for attempt in range(KILLED_RUNS):
        target = tmp_path / f"out-{attempt}"
        for patience in [draw.uniform(0.2, 1) * whole_run, draw.uniform(0.2, 1) * whole_run, 120]:
            process = job.start(target, "--workers", draw.choice("12"))
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                continue
            assert process.returncode == 0, process.communicate()[1]
            process.communicate()
            break
        assert file_hashes(target) == file_hashes(out), f"seed {seed}"


def test_another_evaluation_under_the_same_name_is_another_job(
    everything: tuple[CommandLine, Path, float], tmp_path: Path
) -> None:
    job, out, _ = everything
    assert job.directory is not None
    for name in ("vowels.py", "rules.json"):
        (tmp_path / name).write_bytes((job.directory / name).read_bytes())
    (tmp_path / "exam.jsonl").write_text(json.dumps({"question": "another one " * 9}) + "\n")
    refused = replace(job, directory=tmp_path).run(out, code=2)
    assert "config.filters.decontamination.evaluations: there " in refused.stderr
