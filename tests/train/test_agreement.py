from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.errors import DamageError, MismatchError, UsageError, WorkerError
from headrace.train import agreement
from headrace.train.agreement import in_step, require_same_run
from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.job import prepare
from headrace.train.parallel import joined
from headrace.train.signals import StopRequest
from tests.datasets import random_documents, write_dataset
from tests.train.ranks import on_ranks
from tests.train.tiny import tiny_config, tiny_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("agreement") / "data")


def meet(place: Place, configs: list[RunConfig]) -> str:
    """What a rank with the configuration of its number is told: nothing, or the kind of error and its words."""
    agreement.VISIBLE_WITHIN_SECONDS = 0.2
    config = configs[place.rank]
    Path(config.run.dir).mkdir(parents=True, exist_ok=True)
    job = prepare(config, place)
    with joined(place, timeout_seconds=30) as world:
        try:
            require_same_run(job, world)
        except (MismatchError, UsageError) as error:
            return f"{type(error).__name__} {error}"
    return ""


def test_ranks_of_one_run_meet_and_leave_nothing_in_its_directory(dataset: Path, tmp_path: Path) -> None:
    ours = tiny_config(dataset, tmp_path / "run")
    theirs = ours.model_copy(update={"loader": ours.loader.model_copy(update={"cache_dir": "/a/node"})})
    assert on_ranks(2, meet, [ours, theirs]) == ["", ""]
    assert list((tmp_path / "run").iterdir()) == []


def test_another_configuration_on_one_rank_is_told_on_all_by_its_section(
    dataset: Path, tmp_path: Path
) -> None:
    ours, theirs = (
        tiny_config(dataset, tmp_path / "run", micro_batch_size=1, checkpoint_every=e) for e in (5, 6)
    )
    for told in on_ranks(4, meet, [ours, ours, theirs, ours]):
        assert told.startswith("MismatchError rank 2 has another train section than rank 0")


def meet_from_own_directory(place: Place, config: RunConfig, root: Path) -> str:
    """Relative paths that lead elsewhere on each rank, as local disks do on each machine."""
    os.chdir(root / str(place.rank))
    return meet(place, [config, config])


def test_another_dataset_under_the_same_name_on_one_rank_is_told_on_all(
    dataset: Path, tmp_path: Path
) -> None:
    """B26."""
    other = write_dataset(tmp_path / "other", [random_documents(9, 60, vocab_size=256)], vocab_size=256)
    for rank, target in enumerate((dataset, other)):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "data").symlink_to(target)
    config = tiny_config(Path("data"), tmp_path / "run")
    for told in on_ranks(2, meet_from_own_directory, config, tmp_path):
        assert told.startswith("MismatchError rank 1 has another plan")


def test_a_directory_that_not_all_ranks_see_is_refused_on_all(dataset: Path, tmp_path: Path) -> None:
    """Otherwise each machine would keep its part of every checkpoint, and none could be loaded."""
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
    config = tiny_config(dataset, Path("run"))
    for told in on_ranks(2, meet_from_own_directory, config, tmp_path):
        assert told.startswith("UsageError run.dir: what rank 0 writes to run is not there for the ranks 1;")


def numbers(place: Place, failing: int | None) -> Iterator[int]:
    yield from (10, 20)
    if place.rank == failing:
        raise DamageError("shard 7 is damaged")
    yield 30


def consume(place: Place, failing: int | None, orphan: int | None) -> tuple[list[Any], str]:
    stop = StopRequest(launched=True)
    got: list[Any] = []
    with joined(place, timeout_seconds=30) as world:
        try:
            for batch in in_step(cast(Any, numbers(place, failing)), world, stop):
                got.append(batch)
                if place.rank == orphan and len(got) == 2:
                    stop._parent = 1 << 30  # another parent than it has: the first one died
        except (DamageError, WorkerError) as error:
            return got, f"{type(error).__name__} {error}"
    return got, ""


def test_batches_come_through_unchanged_and_end_together() -> None:
    assert on_ranks(2, consume, None, None) == [([10, 20, 30], "")] * 2


def test_law_9_a_batch_that_one_rank_cannot_read_ends_all_ranks_before_the_step() -> None:
    """B5. Not by a broken connection or a timeout: the others are told."""
    told = on_ranks(3, consume, 1, None)
    assert told[1] == ([10, 20], "DamageError shard 7 is damaged")
    for rank in (0, 2):
        got, said = told[rank]
        assert got == [10, 20]
        assert said.startswith(f"WorkerError rank {rank} ends before its next step; rank 1: could not read")


def test_a_rank_whose_launcher_is_gone_takes_all_with_it_after_the_same_step() -> None:
    for got, said in on_ranks(2, consume, None, 1):
        assert got == [10, 20]
        assert "rank 1: the launcher is gone" in said
