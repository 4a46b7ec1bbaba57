from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from headrace.cli import train as verb
from headrace.dataeng.dataset import Dataset
from headrace.errors import HeadraceError, MismatchError, UsageError
from headrace.train.config import parse_config
from headrace.train.environment import Place
from headrace.train.job import PLAN, build_plan, prepare
from tests.datasets import random_documents, write_dataset
from tests.tokenize.small import publish_small
from tests.train.tiny import tiny_config, tiny_dataset, write_config


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("job") / "data")


def ranks(size: int) -> Place:
    return Place(rank=0, local_rank=0, size=size, launched=True)


@pytest.mark.parametrize(
    ("size", "batch", "micro", "advice"),
    [(3, 8, 2, "use 6 or 12"), (2, 3, 2, "use 4"), (4, 18, 1, "use 16 or 20")],
)
def test_a_batch_that_does_not_split_is_refused_with_the_nearest_that_do(
    size: int, batch: int, micro: int, advice: str, dataset: Path, tmp_path: Path
) -> None:
    config = tiny_config(dataset, tmp_path, global_batch_size=batch, micro_batch_size=micro)
    with pytest.raises(UsageError, match=advice):
        prepare(config, ranks(size))


def test_all_problems_come_in_one_message(tmp_path: Path) -> None:
    large = write_dataset(tmp_path / "data", [random_documents(0, 60, vocab_size=1000)], vocab_size=1000)
    config = tiny_config(large, tmp_path / "run", global_batch_size=7)
    with pytest.raises(UsageError) as caught:
        prepare(config, ranks(2))
    assert "train.global_batch_size: 7 rows do not split evenly" in str(caught.value)
    assert "model.vocab_size: 256, but the datasets hold ids up to 999; use 1000 or more" in str(caught.value)


def test_a_run_directory_of_another_plan_is_refused_with_what_differs(dataset: Path, tmp_path: Path) -> None:
    config = tiny_config(dataset, tmp_path)
    build_plan(config.data).save(tmp_path / PLAN)
    prepare(config, Place())
    other = parse_config(config.to_yaml(), ["data.seed=5"], where="here")
    with pytest.raises(
        MismatchError, match=r"plan\.json: .* seed \(there 0, here 5\)\. Restore the data section"
    ):
        prepare(other, Place())
    weighted = parse_config(config.to_yaml(), ["data.sources.0.weight=3"], where="here")
    with pytest.raises(MismatchError, match=r"differ in: weights \("):
        prepare(weighted, Place())


def test_law_3_a_run_whose_dataset_has_grown_goes_on_over_the_version_that_it_began_with(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    publish_small(data, {"a": [400, 300]})
    config = tiny_config(data, tmp_path / "run")
    config = parse_config(config.to_yaml(), ["model.vocab_size=1000"], where="here")
    (tmp_path / "run").mkdir()
    began = build_plan(config.data)
    began.save(tmp_path / "run" / PLAN)
    publish_small(data, {"b": [400]}, onto=True)
    assert prepare(config, Place()).plan.hash == began.hash
    assert build_plan(config.data).hash != began.hash  # a new run takes the newest
    newest = Dataset.open(data).manifest.hash
    pinned = parse_config(config.to_yaml(), [f"data.sources.0.uri={data}@{newest}"], where="here")
    with pytest.raises(MismatchError, match="differ in: datasets"):
        prepare(pinned, Place())


def test_a_dataset_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tiny_config(tmp_path / "absent", tmp_path)
    with pytest.raises((HeadraceError, FileNotFoundError), match="absent"):
        prepare(config, Place())


def test_dry_run_shows_sizes_and_writes_nothing(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path / "run.yaml", dataset, tmp_path / "run")
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    arguments = parser.parse_args([str(path), "--dry-run", "--set", "train.steps=5"])
    assert verb.run(arguments) == 0
    shown = capsys.readouterr().out
    config = parse_config(shown, where="shown")
    assert config.train.steps == 5
    assert "# tokens of the run  1,280" in shown
    assert "# parameters         42,400 (30,112 used by a token)" in shown
    assert not (tmp_path / "run").exists()
