from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.step import NonFiniteError
from tests.train.ranks import on_ranks
from tests.train.tiny import tiny_config, tiny_dataset, tiny_values
from tests.train.workers import Outcome, assert_same_training, take_steps

STEPS = 3


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("train") / "data")


@pytest.fixture(scope="module")
def alone(dataset: Path) -> Outcome:
    """One process, the whole batch at once."""
    config = tiny_config(dataset, dataset.parent / "run", micro_batch_size=8)
    return on_ranks(1, take_steps, config, STEPS)[0]


@pytest.mark.parametrize(("ranks", "micro_batch"), [(1, 2), (2, 4), (2, 1), (4, 1)])
def test_ranks_and_micro_batches_train_as_one_process_does(
    ranks: int, micro_batch: int, dataset: Path, alone: Outcome
) -> None:
    """Losses, gradient norms, expert counts, biases, parameters and moments after three AdamW steps (C8, C10)."""
    config = tiny_config(dataset, dataset.parent / "run", micro_batch_size=micro_batch)
    outcomes = on_ranks(ranks, take_steps, config, STEPS)
    for outcome in outcomes:
        assert_same_training(outcome, alone, tolerance=1e-5)
    biases = [name for name in alone.state if name.endswith("bias_E")]
    assert len(biases) == 2
    for name in biases:
        assert alone.state[name].abs().sum() > 0, "balancing has done something"
        assert all(torch.equal(outcome.state[name], alone.state[name]) for outcome in outcomes)


def test_clipping_has_done_something(dataset: Path, alone: Outcome) -> None:
    clip_norm = tiny_config(dataset, dataset.parent / "run").optimizer.clip_norm
    assert min(alone.grad_norms) > clip_norm


@pytest.mark.parametrize("experts", [2, 6])
def test_experts_fewer_than_ranks_or_uneven_train_as_one_process_does(experts: int, dataset: Path) -> None:
    """They are cut along another axis than the rest; first weights, clipping, moments and biases with them."""
    values = tiny_values(dataset, dataset.parent / "run", micro_batch_size=2)
    values["model"]["moe"]["num_experts"] = experts
    config = RunConfig.model_validate(values)
    expected, found = (on_ranks(ranks, take_steps, config, STEPS)[0] for ranks in (1, 4))
    assert_same_training(found, expected, tolerance=1e-5)


def test_first_weights_do_not_depend_on_the_number_of_ranks(dataset: Path) -> None:
    config = tiny_config(dataset, dataset.parent / "run")
    one, four = on_ranks(1, take_steps, config, 0)[0], on_ranks(4, take_steps, config, 0)[3]
    assert all(torch.equal(one.state[name], four.state[name]) for name in one.state)


def test_each_expert_learns_from_tokens_of_its_own(alone: Outcome) -> None:
    """C5. Their weights differ from the start; what they were moved by must differ too, and be something."""
    moments = {name: tensor for name, tensor in alone.state.items() if name.endswith("/exp_avg")}
    experts = [tensor for name, tensor in moments.items() if ".experts." in name]
    assert len(experts) == 4
    for tensor in experts:
        for i, moment in enumerate(tensor):
            assert moment.abs().sum() > 0
            assert not any(torch.allclose(moment, other, rtol=0.1) for other in tensor[:i])


def test_an_infinite_gradient_stops_every_rank_before_the_update(dataset: Path) -> None:
    config = tiny_config(dataset, dataset.parent / "run")
    for text in on_ranks(2, take_poisoned_step, config):
        assert text.startswith("step 0: the gradient norm is ")
        assert "samples 0 to 7" in text


def take_poisoned_step(place: Place, config: RunConfig) -> str:
    from headrace.dataeng.loader import Loader
    from headrace.train.job import prepare
    from headrace.train.loop import build_model
    from headrace.train.optimizer import build_optimizer
    from headrace.train.parallel import joined
    from headrace.train.step import Stepper
    from tests.train.workers import whole

    job = prepare(config, place)
    with joined(place, timeout_seconds=30) as world:
        model = build_model(config, world)
        optimizer = build_optimizer(model, config.optimizer)
        with torch.no_grad():
            model.norm.weight_D.mul_(torch.inf)
        before = whole(dict(model.state_dict()))
        with Loader(job.plan, global_batch_size=8, rank=world.rank, world_size=world.size) as loader:
            try:
                Stepper(model, optimizer, config, world).step(0, next(loader), stop=False)
            except NonFiniteError as error:
                after = whole(dict(model.state_dict()))
                assert all(torch.equal(after[name], before[name]) for name in before)
                return str(error)
    raise AssertionError("the step was taken")
