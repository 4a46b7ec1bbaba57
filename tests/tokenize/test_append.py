"""`headrace tokenize --onto`: a new version with more documents, and every older one as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.loader import Loader
from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource
from headrace.tokenize.prune import OLD, abandon, prune, versions
from headrace.tokenize.verify import verify
from tests.tokenize.dying import KILLED
from tests.tokenize.jobs import CommandLine, file_hashes, some_texts, write_parquet

# Of 16 or so; the publishing ones are the last. A longer loop takes its number from outside.
DEATHS = int(os.environ.get("HEADRACE_APPEND_DEATHS", "4"))


@dataclass(frozen=True)
class Append:
    """`headrace tokenize --onto` of one more file."""

    source: Path
    options: tuple[str, ...] = ("--max-rejects", "0.3")

    def arguments(self, dataset: Path | str, *more: str) -> list[str]:
        return ["tokenize", "--onto", str(dataset), *self.options, *more, str(self.source)]

    def run(self, dataset: Path | str, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace", *self.arguments(dataset, *more)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr
        return done


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Append:
    path = tmp_path_factory.mktemp("more") / "more.parquet"
    write_parquet(path, some_texts(7, 90))
    return Append(path)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, finished: Path, more: Append) -> Path:
    """The odd corpus and one file more, by one worker, uninterrupted. Read only."""
    out = tmp_path_factory.mktemp("grown") / "dataset"
    shutil.copytree(finished, out)
    more.run(out, "--workers", "1")
    return out


def test_law_3_a_version_with_more_documents_leaves_every_earlier_file_as_it_was(
    finished: Path, grown: Path
) -> None:
    before, after = file_hashes(finished), file_hashes(grown)
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed == {"manifest.json", "index.json"}
    first = Dataset.open(finished).manifest
    assert after[f"manifest.{first.hash[:16]}.json"] == before["manifest.json"]
    newest = Dataset.open(grown)
    assert newest.manifest.parent == first.hash
    assert newest.shards.rows()[: first.counts.shards] == Dataset.open(finished).shards.rows()
    assert newest.manifest.counts.rows == first.counts.rows + 90
    for uri, version in ((str(grown), newest.manifest), (f"{grown}@{first.hash[:12]}", first)):
        report = verify(uri)
        assert (report.ok, report.manifest) == (True, version.hash)


def test_law_3_every_earlier_sample_keeps_its_tokens_when_the_dataset_grows(
    finished: Path, more: Append, tmp_path: Path
) -> None:
    out = shutil.copytree(finished, tmp_path / "dataset")
    Plan.create([PlanSource.open(out)], sequence_length=32, lanes=12).save(tmp_path / "plan.json")

    def batches() -> list[tuple[np.ndarray, int]]:
        plan = Plan.load(tmp_path / "plan.json")
        with Loader(plan, global_batch_size=8, num_steps=20, threads=0) as loader:
            return [(batch.inputs, batch.digest) for batch in loader]

    before = batches()
    more.run(out)
    after = batches()
    assert [digest for _, digest in after] == [digest for _, digest in before]
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(before, after, strict=True))
    # And the run may go on with the new version from any sample on.
    plan = Plan.load(tmp_path / "plan.json")
    extended = plan.extend(160, [PlanSource.open(out, name="grown")])
    assert extended.includes(plan.hash)


def test_law_4_workers_shares_and_deaths_at_any_instant_give_the_bytes_of_one_uninterrupted_append(
    finished: Path, grown: Path, more: Append, tmp_path: Path
) -> None:
    out = shutil.copytree(finished, tmp_path / "shares")
    for share in ("1/2", "0/2"):
        more.run(out, "--shard-of", share)
    assert Dataset.open(out).manifest.parent is None
    more.run(out, "--finish", "--workers", "2")
    assert file_hashes(out) == file_hashes(grown)
    out = shutil.copytree(finished, tmp_path / "dying")
    killed = 0
    last = 20
    for at in [*np.linspace(1, last, DEATHS).astype(int).tolist(), -3]:
        command = [
            sys.executable,
            "-m",
            "tests.tokenize.dying",
            str(at),
            *more.arguments(out, "--workers", "2"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode in (0, KILLED), done.stderr
        killed += done.returncode == KILLED
        Dataset.open(out)  # one version or the other, at any instant
    assert killed >= 2
    more.run(out)
    assert file_hashes(out) == file_hashes(grown)


def test_a_finished_append_and_the_first_job_are_found_complete_and_a_source_is_not_added_twice(
    grown: Path, command: CommandLine, more: Append, tmp_path: Path
) -> None:
    assert "was already complete" in more.run(grown).stdout
    assert "480 = " in command.run(grown).stdout
    other = tmp_path / "more.parquet"
    write_parquet(other, some_texts(8, 20))
    both = Append(other, (*more.options, str(more.source)))
    before = file_hashes(grown)
    assert "in the dataset already" in both.run(grown, code=2).stderr
    assert file_hashes(grown) == before


def test_a_change_that_adds_no_document_says_how_to_give_it_up_and_another_can_follow(
    finished: Path, more: Append, tmp_path: Path
) -> None:
    out = tmp_path / "dataset"
    shutil.copytree(finished, out)
    empty = tmp_path / "empty.parquet"
    write_parquet(empty, [None, None])
    nothing = Append(empty)
    assert "headrace versions --abandon" in nothing.run(out, code=1).stderr
    assert "is unfinished" in more.run(out, code=2).stderr
    abandon(str(out))
    assert file_hashes(out) == file_hashes(finished)
    more.run(out)


def test_a_job_whose_version_is_damaged_or_was_pruned_since_is_not_said_to_be_complete(
    grown: Path, command: CommandLine, tmp_path: Path
) -> None:
    out = shutil.copytree(grown, tmp_path / "dataset")
    first = list(versions(str(out)))[-1].manifest
    table = out / first.stored_name("rejects.parquet")
    whole = table.read_bytes()
    table.write_bytes(whole[:-1])
    assert "of its files are not as they were written" in command.run(out, code=1).stderr
    table.write_bytes(whole)
    prune(str(out), [OLD])
    assert f"version {first.hash[:16]} was pruned" in command.run(out, code=2).stderr


def test_a_source_with_the_name_of_another_that_is_there_is_refused(
    finished: Path, command: CommandLine, tmp_path: Path
) -> None:
    out = shutil.copytree(finished, tmp_path / "dataset")
    corpus = shutil.copytree(command.corpus, tmp_path / "corpus")
    write_parquet(corpus / "new.parquet", some_texts(8, 20))
    add = Append(corpus / "new.parquet")
    add.run(out)
    write_parquet(corpus / "new.parquet", some_texts(9, 21))
    assert "with other content" in add.run(out, code=2).stderr


def test_what_would_be_tokenized_otherwise_is_refused_with_each_difference(
    grown: Path, command: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "other.parquet"
    write_parquet(path, some_texts(8, 20))
    options = ("--eos", "none", "--shard-bytes", "8k", "--compression", "zstd", "--max-document-bytes", "1k")
    told = Append(path, options).run(grown, code=2).stderr
    for name in (
        "tokenizer.eos: there",
        "shard_bytes: there 4096, here 8192",
        "compression: there 'none', here 'zstd:3'",
        "config.max_document_bytes",
    ):
        assert name in told
    assert "headrace merge" not in told  # which would refuse it for the same reason
    alike = Append(path, ("--max-document-bytes", "1k")).run(grown, code=2).stderr
    assert "make a dataset of its own and join the two with `headrace merge`" in alike
    first = Dataset.open(grown).manifest.parent
    assert first is not None
    assert "newest version" in Append(path).run(f"{grown}@{first[:12]}", code=2).stderr
    assert "ends like a version" in command.run(tmp_path / "new@0123abcd", code=2).stderr
    assert "holds no dataset" in Append(path).run(tmp_path / "absent", code=2).stderr


@pytest.mark.s3
@pytest.mark.timeout(240)
def test_of_two_appends_at_once_on_s3_one_wins_and_the_other_is_told(
    tokenizer_file: Path, s3_bucket: str, tmp_path: Path
) -> None:
    """No lock is to be had there but the journal, which only one of them can create."""
    out = f"{s3_bucket}/dataset"
    for seed, name in enumerate(["first", "second", "third"]):
        write_parquet(tmp_path / f"{name}.parquet", some_texts(seed, 20))
    CommandLine(tmp_path / "first.parquet", tokenizer_file, ("--max-rejects", "0.3")).run(out)
    jobs = [Append(tmp_path / f"{name}.parquet") for name in ("second", "third")]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "headrace", *job.arguments(out, "--workers", "1")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    said = [process.communicate(timeout=200)[1] for process in running]
    codes = [process.returncode for process in running]
    assert 0 in codes, said
    for code, told in zip(codes, said, strict=True):
        refused = "is unfinished" in told or "has just changed" in told or "no longer at version" in told
        assert code == 0 or refused, told
    for job, code in zip(jobs, codes, strict=True):
        if code:
            job.run(out)  # what it was told to do
    report = verify(out)
    assert report.ok, report.problems
    assert Dataset.open(out).manifest.counts.rows == 60
