from __future__ import annotations

import time

import pytest
import torch

from headrace.train.environment import Place
from headrace.train.parallel import cut_axis, joined
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


@pytest.mark.parametrize(
    ("shape", "ranks", "axis"),
    [
        ((64, 2048, 1024), 8, 0),
        ((64, 2048, 1024), 512, 1),  # fewer experts than ranks
        ((60, 2048, 1024), 8, 1),  # 4 of 64 would be padding
        ((60, 1401, 1024), 8, 2),
        ((60, 1401, 1407), 8, 0),  # nothing splits evenly
        ((50257, 2048), 8, 0),  # 7 rows of padding are not worth a copy
        ((32,), 512, 0),
        ((5, 7), 1, 0),
    ],
)
def test_parameters_are_cut_where_no_rank_is_left_without(
    shape: tuple[int, ...], ranks: int, axis: int
) -> None:
    assert cut_axis(shape, ranks) == axis
