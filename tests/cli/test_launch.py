"""The job files are run here as their schedulers would run them: with the variables that those set."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

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
    """`headrace` on PATH, and an `sbatch` and a `scontrol` that write down what they were told."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in (
        ("headrace", f'exec "{sys.executable}" -m headrace "$@"'),
        ("sbatch", f'echo "sbatch $@" >> "{tmp_path}/told"; echo "77;cluster"'),
        ("scontrol", f'echo "scontrol $@" >> "{tmp_path}/told"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    without = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return {**without, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}


def told(tmp_path: Path) -> list[str]:
    path = tmp_path / "told"
    return path.read_text().splitlines() if path.exists() else []


def in_slurm(environment: dict[str, str], task: int, restarts: int = 0) -> dict[str, str]:
    """What SLURM sets in a job of an array."""
    return {
        **environment,
        "SLURM_ARRAY_JOB_ID": "77",
        "SLURM_ARRAY_TASK_ID": str(task),
        "SLURM_JOB_ID": "77",  # of the last one; the others have numbers of their own
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_RESTART_COUNT": str(restarts),
    }


def slurm_script(headrace: Command, tmp_path: Path, command: list[str]) -> Path:
    assert headrace("launch", "tokenize", "slurm", "--shares", "2", "--memory", "3G", "--", *command) == 0
    script = tmp_path / "a job.sh"
    script.write_text(headrace.out)
    subprocess.run(["bash", "-n", script], check=True)
    return script


def test_a_slurm_array_and_its_end_publish_the_dataset_of_one_job(
    headrace: Command, corpus: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    assert headrace("tokenize", *arguments(corpus, tmp_path / "whole")) == 0
    script = slurm_script(headrace, tmp_path, arguments(corpus, tmp_path / "out"))
    assert {"#SBATCH --array=0-1", "#SBATCH --mem=3072M", "#SBATCH --requeue"} <= set(
        headrace.out.splitlines()
    )
    subprocess.run(["bash", script], env=environment, check=True, timeout=60)
    assert told(tmp_path) == [
        f"sbatch --parsable {script}",
        f"sbatch --job-name=headrace-tokenize-finish --dependency=afterok:77 --kill-on-invalid-dep=yes --array=0 {script} finish",
    ]
    for task in range(2):
        subprocess.run(["bash", script], env=in_slurm(environment, task), check=True, timeout=120)
    subprocess.run(["bash", script, "finish"], env=in_slurm(environment, 0), check=True, timeout=120)
    assert file_hashes(tmp_path / "out") == file_hashes(tmp_path / "whole")
    assert len(told(tmp_path)) == 2, "nothing was requeued"


def test_two_slurm_jobs_find_duplicates_and_then_leave_them_out(
    headrace: Command, corpus: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    again = shutil.copy(corpus / "corpus" / "a.parquet", tmp_path / "again.parquet")
    twice = [*arguments(corpus, tmp_path / "out"), str(again), "--dedup", "exact"]
    scan = slurm_script(headrace, tmp_path, [*twice, "--scan"]).rename(tmp_path / "scan.sh")
    assert "--scan" not in headrace.err
    assert "#SBATCH --job-name=headrace-scan" in scan.read_text().splitlines()
    script = slurm_script(headrace, tmp_path, twice)
    assert "run that of the same command with --scan added" in headrace.err
    for file in (scan, script):
        for task in range(2):
            subprocess.run(["bash", file], env=in_slurm(environment, task), check=True, timeout=120)
        subprocess.run(["bash", file, "finish"], env=in_slurm(environment, 0), check=True, timeout=120)
    assert b'"duplicate"' in (tmp_path / "out" / "manifest.json").read_bytes()


@pytest.mark.parametrize(
    ("code", "restarts", "requeued"),
    [
        (0, 0, False),
        (1, 0, False),
        (2, 0, False),
        (3, 0, True),
        (75, 5, True),
        (75, 6, False),
        (137, 0, False),
    ],
)
def test_a_slurm_job_is_requeued_for_what_need_not_happen_again(
    headrace: Command, tmp_path: Path, environment: dict[str, str], code: int, restarts: int, requeued: bool
) -> None:
    script = slurm_script(headrace, tmp_path, ["--out", "o", "--tokenizer", "t", "s"])
    (tmp_path / "tools" / "headrace").write_text(f"#!/bin/sh\nexit {code}\n")
    ended = subprocess.run(["bash", script], env=in_slurm(environment, 0, restarts), check=False, timeout=60)
    assert ended.returncode == (0 if requeued else code)
    assert told(tmp_path) == (["scontrol requeue 77_0"] if requeued else [])


@pytest.mark.parametrize(
    ("number", "code", "requeued"), [(signal.SIGUSR1, 0, True), (signal.SIGTERM, 143, False)]
)
def test_a_slurm_job_goes_on_after_its_time_limit_and_ends_when_it_is_cancelled(
    headrace: Command,
    tmp_path: Path,
    environment: dict[str, str],
    number: signal.Signals,
    code: int,
    requeued: bool,
) -> None:
    script = slurm_script(headrace, tmp_path, ["--out", "o", "--tokenizer", "t", "s"])
    # Ends as headrace does: with 143, a moment after SIGTERM.
    (tmp_path / "tools" / "headrace").write_text(
        f"#!/bin/bash\ntrap 'sleep 0.2; exit 143' TERM\ntouch '{tmp_path}/begun'\nwhile :; do sleep 0.05; done\n"
    )
    job = subprocess.Popen(["bash", script], env=in_slurm(environment, 0))
    while not (tmp_path / "begun").exists():
        assert job.poll() is None
        time.sleep(0.01)
    job.send_signal(number)
    assert job.wait(timeout=60) == code
    assert told(tmp_path) == (["scontrol requeue 77_0"] if requeued else [])


def kubernetes_jobs(headrace: Command, *words: str) -> list[dict[str, Any]]:
    assert (
        headrace("launch", "tokenize", "k8s", "--image", "r/h:1", "--cpus", "1", "--shares", "2", *words) == 0
    )
    jobs = list(yaml.safe_load_all(headrace.out))
    for job in jobs:
        for version in ("1.31", "1.37"):
            kubernetes_validate.validate(job, version, strict=True)
    return jobs


def in_pod(job: dict[str, Any], environment: dict[str, str]) -> list[str]:
    """The command as the kubelet starts it: $(VARIABLE) replaced, $$ a dollar."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return [
        re.sub(r"\$(?:\$|\((\w+)\))", lambda found: environment[found[1]] if found[1] else "$", word)
        for word in container["command"]
    ]


def test_kubernetes_jobs_publish_the_dataset_of_one_job(
    headrace: Command, corpus: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    assert headrace("tokenize", *arguments(corpus, tmp_path / "whole")) == 0
    out = tmp_path / "$out $(HOME)"
    shares, finish = kubernetes_jobs(headrace, "--", *arguments(corpus, out))
    assert shares["spec"]["completions"] == 2
    for index in range(2):
        pod = {**environment, "JOB_COMPLETION_INDEX": str(index)}
        subprocess.run(in_pod(shares, pod), env=pod, check=True, timeout=120)
    subprocess.run(in_pod(finish, environment), env=environment, check=True, timeout=120)
    assert file_hashes(out) == file_hashes(tmp_path / "whole")


def test_a_kubernetes_job_gives_up_what_would_fail_again_and_does_not_count_lost_nodes(
    headrace: Command,
) -> None:
    words = ["--memory", "900M", "--secret", "s3-keys", "--", "--out", "o", "--tokenizer", "t", "s"]
    shares, finish = kubernetes_jobs(headrace, *words)
    for job, give_up in ((shares, "FailIndex"), (finish, "FailJob")):
        lost, wrong = job["spec"]["podFailurePolicy"]["rules"]
        assert (lost["action"], lost["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
        assert (wrong["action"], wrong["onExitCodes"]["values"]) == (give_up, [1, 2])
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert wrong["onExitCodes"]["containerName"] == container["name"]
        assert container["envFrom"] == [{"secretRef": {"name": "s3-keys"}}]
        assert container["resources"]["limits"] == {"cpu": "1", "memory": "900Mi"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["slurm", "--shares", "0"], "expected 1 to 100,000 shares"),
        (["k8s", "--shares", "100001", "--image", "i"], "expected 1 to 100,000 shares"),
        (["slurm", "--shares", "2", "--cpus", "0"], "1 or more cores"),
        (["k8s", "--shares", "2"], "--image goes with k8s"),
        (["slurm", "--shares", "2", "--name", "a;b"], "lower-case"),
        (["slurm", "--shares", "2", "--secret", "s"], "expected, with k8s"),
        (["slurm", "--shares", "2", "--memory", "16"], "expected MiB or GiB"),
        (["slurm", "--shares", "2", "--", "--finish"], "are set by the job file"),
        (["slurm", "--shares", "2", "--", "--executor", "ray"], "spreads a job by itself"),
        (
            ["slurm", "--shares", "2", "--", "https://user:hunter2@host/a.jsonl"],
            "has a user, password, query",
        ),
        (
            ["slurm", "--shares", "2", "--", "https://host/a.jsonl?signature=hunter2"],
            "has a user, password, query",
        ),
        (["slurm", "--shares", "2", "--", "line\nbreak"], "control characters, line breaks"),
    ],
)
def test_a_mistake_shows_before_anything_is_submitted(
    headrace: Command, words: list[str], message: str
) -> None:
    where = words.index("--") if "--" in words else len(words)
    command = ["--out", "o", "--tokenizer", "t", "s", *words[where + 1 :]]
    assert headrace("launch", "tokenize", *words[:where], "--", *command) == 2
    assert message in headrace.err
    assert "hunter2" not in headrace.err
    assert not headrace.out


def test_a_mistake_in_the_tokenize_command_shows_too(
    headrace: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        headrace("launch", "tokenize", "slurm", "--shares", "2", "--", "--out", "o", "--tokenizr", "t", "s")
    assert ended.value.code == 2
    assert "--tokenizer" in capsys.readouterr().err
