"""The job files are run here as their schedulers would run them: with the variables that those set."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.tokenize.jobs import file_hashes, write_corpus, write_tokenizer

OPTIONS = ["--shard-bytes", "4k", "--id-column", "id", "--max-rejects", "0.2"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a corpus")  # with a space, for the quoting
    write_corpus(root / "corpus", count=30)
    write_tokenizer(root / "tokenizer.json")
    return root


def arguments(root: Path, out: Path) -> list[str]:
    return ["--out", str(out), "--tokenizer", str(root / "tokenizer.json"), *OPTIONS, str(root / "corpus")]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`headrace` on PATH, and an `sbatch` that writes down what it was told."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in (
        ("headrace", f'exec "{sys.executable}" -m headrace "$@"'),
        ("sbatch", f'echo "$@" >> "{tmp_path}/submitted"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def test_a_slurm_array_and_its_end_publish_the_dataset_of_one_job(
    headrace: Command, corpus: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    assert headrace("tokenize", *arguments(corpus, tmp_path / "whole")) == 0
    assert (
        headrace("launch", "tokenize", "slurm", "--parts", "2", "--", *arguments(corpus, tmp_path / "out"))
        == 0
    )
    script = tmp_path / "job.sh"
    script.write_text(headrace.out)
    assert "#SBATCH --array=0-1" in headrace.out
    slurm = {**environment, "SLURM_ARRAY_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "1"}
    for task in range(2):
        subprocess.run(
            ["bash", script], env={**slurm, "SLURM_ARRAY_TASK_ID": str(task)}, check=True, timeout=120
        )
    submitted = (tmp_path / "submitted").read_text().splitlines()
    assert len(submitted) == 1
    assert "--dependency=afterok:77" in submitted[0]
    subprocess.run(
        ["bash", script, "finish"], env={**slurm, "SLURM_ARRAY_TASK_ID": "0"}, check=True, timeout=120
    )
    assert file_hashes(tmp_path / "out") == file_hashes(tmp_path / "whole")


def test_kubernetes_jobs_publish_the_dataset_of_one_job(
    headrace: Command, corpus: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    assert headrace("tokenize", *arguments(corpus, tmp_path / "whole")) == 0
    words = arguments(corpus, tmp_path / "out")
    assert (
        headrace("launch", "tokenize", "k8s", "--image", "r/h:1", "--cpus", "1", "--parts", "2", "--", *words)
        == 0
    )
    parts, finish = (json.loads(text) for text in re.findall(r"args:\n\s+- (.*)", headrace.out))
    assert "completions: 2" in headrace.out
    for index in range(2):
        pod = {**environment, "JOB_COMPLETION_INDEX": str(index)}
        subprocess.run(["/bin/sh", "-c", parts], env=pod, check=True, timeout=120)
    subprocess.run(["/bin/sh", "-c", finish], env=environment, check=True, timeout=120)
    assert file_hashes(tmp_path / "out") == file_hashes(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["slurm", "--parts", "0", "--", "--out", "o", "--tokenizer", "t", "s"], "expected 1 or more"),
        (["k8s", "--parts", "2", "--", "--out", "o", "--tokenizer", "t", "s"], "--image goes with k8s"),
        (
            ["slurm", "--parts", "2", "--name", "a;b", "--", "--out", "o", "--tokenizer", "t", "s"],
            "lower-case",
        ),
        (
            ["slurm", "--parts", "2", "--", "--out", "o", "--tokenizer", "t", "--finish", "s"],
            "are set by the job file",
        ),
    ],
)
def test_a_mistake_shows_before_anything_is_submitted(
    headrace: Command, words: list[str], message: str
) -> None:
    assert headrace("launch", "tokenize", *words) == 2
    assert message in headrace.err
    assert not headrace.out


def test_a_mistake_in_the_tokenize_command_shows_too(
    headrace: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        headrace("launch", "tokenize", "slurm", "--parts", "2", "--", "--out", "o", "--tokenizr", "t", "s")
    assert ended.value.code == 2
    assert "--tokenizer" in capsys.readouterr().err
