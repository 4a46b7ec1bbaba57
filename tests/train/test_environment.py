from __future__ import annotations

import pytest

from headrace.errors import UsageError
from headrace.train.environment import Place

TORCHRUN = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "1"}


def test_without_torchrun_there_is_one_process() -> None:
    assert Place.from_environment({}) == Place(rank=0, local_rank=0, size=1, launched=False)


def test_what_torchrun_sets_is_taken() -> None:
    assert Place.from_environment(TORCHRUN) == Place(rank=3, local_rank=1, size=4, launched=True)


@pytest.mark.parametrize("name", ["LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"])
def test_half_a_launcher_is_refused_by_what_is_missing(name: str) -> None:
    """Otherwise every process would believe itself alone and train the same samples."""
    with pytest.raises(UsageError, match=f"but not {name}"):
        Place.from_environment({key: value for key, value in TORCHRUN.items() if key != name})


@pytest.mark.parametrize("changed", [{"RANK": "4"}, {"RANK": "-1"}, {"LOCAL_RANK": "x"}, {"WORLD_SIZE": ""}])
def test_a_place_that_no_job_has_is_refused_with_what_was_set(changed: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="expected 0 <= LOCAL_RANK <= RANK < WORLD_SIZE"):
        Place.from_environment({**TORCHRUN, **changed})
