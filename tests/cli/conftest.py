"""One tokenized corpus, one plan over it, and a run directory whose ledger was written by real loaders."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.dataeng.loader import Loader
from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource
from headrace.manifests.ledger import LEDGER, Ledger
from tests.corpus import tokenize_corpus

BATCH = 8


@pytest.fixture(scope="session")
def tokenized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenize_corpus(tmp_path_factory.mktemp("corpus"), "--shard-bytes", "20000")


@pytest.fixture
def run(tokenized: Path, tmp_path: Path) -> Path:
    """A run of 6 steps, killed after the fourth and restarted from a checkpoint of the third."""
    directory = tmp_path / "run"
    directory.mkdir()
    plan = Plan.create([PlanSource.open(tokenized)], sequence_length=32)
    plan.save(directory / "plan.json")
    ledger = Ledger.open(directory / LEDGER)
    for first, last in ((0, 4), (3, 6)):
        ledger.begin(
            plan_hash=plan.hash,
            first_step=first,
            next_sample=first * BATCH,
            world_size=2,
            global_batch_size=BATCH,
        )
        loader = Loader(
            plan,
            global_batch_size=BATCH,
            threads=0,
            cursor=plan.cursor(first * BATCH),
            num_steps=last - first,
        )
        for step, batch in enumerate(loader, start=first):
            ledger.step(step, batch.first_sample, batch.end_sample, batch.digest)
    ledger.close()
    return directory


class Command:
    """`headrace ...` in this process: its exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def headrace(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)
