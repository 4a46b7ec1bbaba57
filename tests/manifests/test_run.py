import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InputError
from headrace.manifests.run import RunManifest, Start


def start(attempt: int) -> Start:
    return Start(
        attempt=attempt,
        first_step=attempt * 10,
        plan_hash="p",
        config_hash="c",
        world_size=2,
        device="cpu",
        datasets={"a": "1" * 64},
        software={"torch": "2.13.0"},
    )


@given(st.integers(0, 6))
def test_starts_are_kept_in_order_and_read_back(count: int) -> None:
    run = RunManifest()
    for attempt in range(1, count + 1):
        run = run.with_start(start(attempt))
    assert RunManifest.from_bytes(run.to_bytes(), "run.json") == run
    assert [s.attempt for s in run.starts] == list(range(1, count + 1))


def test_a_start_that_never_reached_the_ledger_is_replaced() -> None:
    run = RunManifest((start(1), start(2))).with_start(start(2))
    assert [s.attempt for s in run.starts] == [1, 2]


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"format": "x"}, {"starts": {}}, {"starts": [{"attempt": 1}]}]
)
def test_an_altered_file_is_refused_by_name(change: dict[str, Any]) -> None:
    value = json.loads(RunManifest((start(1),)).to_bytes()) | change
    with pytest.raises(InputError, match=r"run\.json"):
        RunManifest.from_bytes(json.dumps(value).encode(), "run.json")
