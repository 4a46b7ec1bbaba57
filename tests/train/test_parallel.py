from __future__ import annotations

import time

import pytest
import torch

from headrace.train.environment import Place
from headrace.train.parallel import joined
from tests.train.ranks import on_ranks


def gather_and_sum(place: Place) -> tuple[list[object], list[int]]:
    with joined(place, timeout_seconds=20) as world:
        return world.gather(place.rank), world.sum(torch.tensor([place.rank, 1])).tolist()


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_rank_hears_all_others_and_a_world_of_one_itself(ranks: int) -> None:
    expected = (list(range(ranks)), [sum(range(ranks)), ranks])
    assert on_ranks(ranks, gather_and_sum) == [expected] * ranks


def wait_for_a_sleeper(place: Place) -> float:
    with joined(place, timeout_seconds=2) as world:
        world.gather(None)
        began = time.monotonic()
        if place.rank == 1:
            time.sleep(8)
            return 0.0
        with pytest.raises(RuntimeError):
            world.gather(None)
        return time.monotonic() - began


def test_no_rank_waits_longer_than_the_timeout_for_one_that_hangs() -> None:
    waited, _ = on_ranks(2, wait_for_a_sleeper)
    assert 1 < waited < 7
