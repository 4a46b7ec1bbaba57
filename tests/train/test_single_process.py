"""The loop as a plain `headrace train` runs it: one process, no launcher."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch.distributed.checkpoint import FileSystemReader, TensorStorageMetadata  # type: ignore[attr-defined]

from headrace.errors import MismatchError
from headrace.manifests.ledger import LEDGER, audit, read_ledger
from headrace.train.config import RunConfig, load_config, parse_config
from headrace.train.loop import train
from headrace.train.metrics import METRICS, read_metrics
from tests.train.tiny import tiny_config, tiny_dataset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run of three steps that has ended."""
    root = tmp_path_factory.mktemp("alone")
    config = tiny_config(tiny_dataset(root / "data"), root / "run", deterministic=False)
    train(config)
    return config


def changed(config: RunConfig, *overrides: str) -> RunConfig:
    return parse_config(config.to_yaml(), overrides, where="here")


def test_the_resolved_configuration_is_saved_with_the_run(trained: RunConfig) -> None:
    assert load_config(Path(trained.run.dir) / "config.yaml") == trained


def test_a_run_that_has_ended_takes_no_further_step(
    trained: RunConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (Path(trained.run.dir) / LEDGER).read_bytes()
    train(trained)
    assert "all 3 steps are done, the last checkpoint is of step 3" in capsys.readouterr().out
    assert (Path(trained.run.dir) / LEDGER).read_bytes() == before


def test_more_steps_and_another_batch_size_continue_on_the_next_sample(trained: RunConfig) -> None:
    train(changed(trained, "train.steps=5", "train.global_batch_size=4"))
    report = audit(read_ledger(Path(trained.run.dir) / LEDGER))
    assert report.ok
    assert [step.end_sample for step in report.steps] == [8, 16, 24, 28, 32]
    assert [line["tokens"] for line in read_metrics(Path(trained.run.dir) / METRICS).values()] == [
        32 * end for end in (8, 16, 24, 28, 32)
    ]


def test_another_model_is_refused_with_what_differs(trained: RunConfig) -> None:
    with pytest.raises(MismatchError, match=r"num_layers 2 -> 3"):
        train(changed(trained, "model.num_layers=3", "train.steps=9"))


def test_another_order_of_samples_is_refused_with_what_differs(trained: RunConfig) -> None:
    with pytest.raises(MismatchError, match="seed"):
        train(changed(trained, "data.seed=3", "train.steps=9"))


def test_tensors_bear_the_names_of_the_page(trained: RunConfig) -> None:
    """docs/formats/checkpoint.md."""
    (newest, *_) = sorted((Path(trained.run.dir) / "checkpoints").glob("step-*"), reverse=True)
    names = FileSystemReader(newest).read_metadata().state_dict_metadata
    assert {
        "model.blocks.0.moe.router.bias_E",
        "model.blocks.1.moe.experts.gate_up_EDF",
        "optimizer.blocks.1.moe.experts.gate_up_EDF.exp_avg_sq",
        "optimizer.norm.weight_D.step",
    } <= set(names)
    experts = names["model.blocks.0.moe.experts.down_EFD"]
    assert isinstance(experts, TensorStorageMetadata)
    assert tuple(experts.size) == (4, 32, 32)
