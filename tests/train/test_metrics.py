from __future__ import annotations

import dataclasses
import math
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import MissingExtra
from headrace.train.metrics import METRICS, MetricsLog, StepMetrics, read_metrics, require_tensorboard

STEP = StepMetrics(
    step=3,
    attempt=1,
    loss=5.5,
    grad_norm=0.5,
    lr=1e-3,
    tokens=1024,
    tokens_per_second=100.0,
    seconds=0.1,
    wait_seconds=0.0,
    first_sample=24,
    end_sample=32,
    digest="00ff00ff00ff00ff",
    expert_max=[0.3, 0.4],
    expert_min=[0.2, 0.1],
    router_entropy=[1.3, 1.2],
    balance_loss=[1.0, 1.1],
    z_loss=[0.5, 0.6],
)


def write(directory: Path, *steps: StepMetrics) -> None:
    log = MetricsLog(directory)
    try:
        for step in steps:
            log.write(step)
    finally:
        log.close()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_loss_reads_back_bit_for_bit(loss: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), dataclasses.replace(STEP, loss=loss))
        again = read_metrics(Path(name) / METRICS)[3]["loss"]
    assert (again, math.copysign(1, again)) == (loss, math.copysign(1, loss))


def test_a_torn_last_line_is_cut_off_before_the_next_one(tmp_path: Path) -> None:
    write(tmp_path, STEP)
    whole = (tmp_path / METRICS).read_bytes()
    for end in range(len(whole)):
        (tmp_path / METRICS).write_bytes(whole + whole[:end])
        write(tmp_path, dataclasses.replace(STEP, step=4))
        assert list(read_metrics(tmp_path / METRICS)) == [3, 4]


def test_of_a_replayed_step_the_last_telling_counts(tmp_path: Path) -> None:
    write(tmp_path, STEP, dataclasses.replace(STEP, step=4), dataclasses.replace(STEP, attempt=2))
    steps = read_metrics(tmp_path / METRICS)
    assert (list(steps), steps[3]["attempt"]) == ([3, 4], 2)


def test_a_value_that_is_no_number_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(tmp_path, dataclasses.replace(STEP, loss=math.nan))


def test_tensorboard_gets_every_number_once_per_layer(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = MetricsLog(tmp_path, tensorboard=True)
    log.write(STEP)
    log.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    tags = set(events.Tags()["scalars"])
    assert {"loss", "grad_norm", "expert_max/layer_0", "expert_max/layer_1"} <= tags
    (event,) = events.Scalars("loss")
    assert (event.step, event.value) == (3, 5.5)


def test_without_tensorboard_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"pip install 'headrace\[tensorboard\]'"):
        require_tensorboard()
