from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from headrace.manifests.ledger import LEDGER, audit, read_ledger
from tests.train.tiny import tiny_dataset, write_config
from tests.train.torchrun import Job, alive, told

pytestmark = [pytest.mark.slow, pytest.mark.distributed, pytest.mark.timeout(300)]

STEPS = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("loop")
    tiny_dataset(root / "data")
    return root


def configure(root: Path, name: str, **train: object) -> tuple[Path, Path]:
    run = root / name
    values = {"steps": STEPS, "checkpoint_every": 7, "micro_batch_size": 4, **train}
    return write_config(root / f"{name}.yaml", root / "data", run, **values), run


@pytest.fixture(scope="module")
def uninterrupted(root: Path) -> Path:
    config, run = configure(root, "uninterrupted")
    Job(config).finish()
    assert len(told(run)[0]) == STEPS
    return run


def test_law_8_exactly_once_whenever_the_job_is_killed(root: Path, uninterrupted: Path) -> None:
    """Five kills at random instants, each followed by a restart at once; every loss, digest, norm and expert load of
    every step then equals the uninterrupted run's, bit for bit, and the audit finds neither hole nor repeat. With a
    checkpoint every third step, about half of the kills fall into a save."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    config, run = configure(root, "killed", checkpoint_every=3)
    for attempt in range(1, 6):
        job = Job(config)
        job.wait_for_steps(run, chance.randrange(1, 9), attempt=attempt)
        time.sleep(chance.random() * 0.15)
        job.kill()
    Job(config).finish()
    assert told(run) == told(uninterrupted), f"seed {seed}"
    report = audit(read_ledger(run / LEDGER))
    assert report.attempts == 6, f"seed {seed}: every kill must hit a running job"
    assert report.replayed_steps, f"seed {seed}"
    assert not list((run / "checkpoints").glob(".tmp-*"))


def test_sigterm_saves_and_exits_cleanly_and_any_number_of_ranks_goes_on(
    root: Path, uninterrupted: Path
) -> None:
    """SIGTERM to every process, as a scheduler does, then to one rank of two; then the run goes on with one, then four."""
    config, run = configure(root, "terminated", checkpoint_every=1000, micro_batch_size=2)
    straight, lines = told(uninterrupted)
    done = 0
    for attempt in (1, 2):
        job = Job(config)
        job.wait_for_steps(run, 4, attempt=attempt)
        if attempt == 1:
            job.signal_all(signal.SIGTERM)
            job.wait()  # torchrun, told to end, says so with a code of its own
        else:
            os.kill(job.ranks()[1], signal.SIGTERM)
            job.finish()
        assert "asked to stop" in job.said()
        before, done = done, len(told(run)[0])
        assert before + 4 <= done < STEPS
        assert (run / "checkpoints" / "latest").read_text() == f"step-{done:08d}\n"
    assert told(run)[0] == straight[:done]

    Job(config, f"train.steps={done + 5}", ranks=1).finish()
    job = Job(config, f"train.steps={done + 10}", ranks=4)
    job.finish()
    assert f"continues at step {done + 5}, sample {(done + 5) * 8}" in job.said()
    steps, resumed = told(run)
    assert steps == straight[: done + 10]
    assert [line["digest"] for line in resumed] == [line["digest"] for line in lines[: done + 10]]
    assert audit(read_ledger(run / LEDGER)).replayed_steps == 0


def test_law_9_a_rank_that_dies_ends_the_job_with_a_reason_and_a_code(root: Path) -> None:
    config, run = configure(root, "death", steps=100_000, checkpoint_every=1000)
    job = Job(config)
    job.wait_for_steps(run, 3)
    victims = job.ranks()
    os.kill(victims[1], signal.SIGKILL)
    began = time.monotonic()
    assert job.wait(60) != 0
    assert time.monotonic() - began < 45
    assert "SIGKILL" in job.said() or "Signal 9" in job.said()


def test_ranks_do_not_outlive_their_launcher_and_the_restart_waits_for_them(root: Path) -> None:
    config, run = configure(root, "orphans", steps=100_000, checkpoint_every=20)
    job = Job(config)
    job.wait_for_steps(run, 25)
    orphans = job.ranks()
    job.process.kill()  # the launcher alone; its ranks live on for a step
    job.wait()
    Job(config, "train.steps=60").finish()
    assert not any(alive(pid) for pid in orphans)
    assert len(told(run)[0]) >= 60
