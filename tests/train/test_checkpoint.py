from __future__ import annotations

import dataclasses
import itertools
import random
import resource
import shutil
import time
from multiprocessing.context import ForkServerProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
import torch

from headrace.errors import DamageError, InputError
from headrace.train.checkpoint import LATEST, Checkpoints, MakeRecord
from headrace.train.checkpoint_record import RECORD, CheckpointRecord
from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.parallel import joined
from tests.train.ranks import SERVER, on_ranks
from tests.train.tiny import tiny_config, tiny_dataset, tiny_values
from tests.train.workers import Outcome, assert_same_training, take_steps


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("checkpoint") / "data")


@pytest.fixture(scope="module")
def saved(dataset: Path) -> tuple[Path, Outcome]:
    """A checkpoint of two ranks after two steps, and the state it should hold."""
    directory = dataset.parent / "checkpoints"
    config = tiny_config(dataset, dataset.parent / "run")
    return directory, on_ranks(2, save_steps, config, directory)[0]


def save_steps(place: Place, config: RunConfig, directory: Path) -> Outcome:
    return take_steps(place, config, 2, save=directory)


def continue_from(place: Place, config: RunConfig, steps: int, load: Path, save: Path | None) -> Outcome:
    return take_steps(place, config, steps, load=load, save=save)


def test_checkpoint_of_two_ranks_continues_on_one_and_then_on_four(
    dataset: Path, saved: tuple[Path, Outcome], tmp_path: Path
) -> None:
    """Weights, moments, router bias and cursor survive 2 -> 1 -> 4 ranks (C6, C12, C17)."""
    config = tiny_config(dataset, dataset.parent / "run")
    directory, _ = saved
    on_one = on_ranks(1, continue_from, config, 2, directory, tmp_path)[0]
    on_four = on_ranks(
        4, continue_from, tiny_config(dataset, dataset.parent / "run", micro_batch_size=1), 1, tmp_path, None
    )[0]
    assert on_four.loaded is not None
    assert on_four.loaded.cursor.next_sample == 32
    straight = on_ranks(1, continue_from, config, 3, directory, None)[0]
    assert straight.digests == on_one.digests + on_four.digests
    assert straight.digests != saved[1].digests
    torch.testing.assert_close(on_four.losses, straight.losses[2:], rtol=1e-5, atol=1e-5)
    for name, tensor in straight.state.items():
        torch.testing.assert_close(on_four.state[name], tensor, rtol=1e-5, atol=1e-5)


def save_within(place: Place, config: RunConfig, directory: Path, limit: int) -> str:
    """What a save raises where no file may grow past `limit` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
    try:
        take_steps(place, config, 1, save=directory)
    except InputError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    return ""


def test_a_checkpoint_that_finds_no_room_says_so_on_every_rank(dataset: Path, tmp_path: Path) -> None:
    said = on_ranks(2, save_within, tiny_config(dataset, dataset.parent / "run"), tmp_path, 10_000)
    assert all("step-00000001: the checkpoint could not be written, with " in reason for reason in said), said
    assert not (tmp_path / LATEST).exists()


def test_loading_restores_every_bit(dataset: Path, saved: tuple[Path, Outcome]) -> None:
    config = tiny_config(dataset, dataset.parent / "run", seed=7)  # other first weights, all replaced
    directory, expected = saved
    for ranks in (1, 2):
        found = on_ranks(ranks, continue_from, config, 0, directory, None)[0]
        assert found.state.keys() == expected.state.keys()
        assert all(torch.equal(found.state[name], tensor) for name, tensor in expected.state.items())


def test_a_checkpoint_loads_wherever_its_experts_were_cut(dataset: Path, tmp_path: Path) -> None:
    """Two experts: four ranks cut them along their width, three and one along the axis of experts (C6, C12)."""
    values = tiny_values(dataset, dataset.parent / "run", global_batch_size=12, micro_batch_size=1)
    values["model"]["moe"]["num_experts"] = 2
    config = RunConfig.model_validate(values)
    expected = on_ranks(4, save_steps, config, tmp_path / "four")[0]
    assert len(expected.losses) == 2
    for ranks in (3, 1):
        found = on_ranks(ranks, continue_from, config, 0, tmp_path / "four", None)[0]
        assert all(torch.equal(found.state[name], tensor) for name, tensor in expected.state.items())


def test_two_ranks_go_on_bit_for_bit(dataset: Path, saved: tuple[Path, Outcome]) -> None:
    config = tiny_config(dataset, dataset.parent / "run")
    go_on = on_ranks(2, continue_from, config, 2, saved[0], None)[0]
    straight = on_ranks(2, take_steps, config, 4)[0]
    assert (saved[1].losses + go_on.losses, saved[1].grad_norms + go_on.grad_norms) == (
        straight.losses,
        straight.grad_norms,
    )
    assert_same_training(
        go_on,
        Outcome(
            state=straight.state,
            losses=straight.losses[2:],
            grad_norms=straight.grad_norms[2:],
            digests=straight.digests[2:],
            counts=straight.counts[2:],
            loaded=None,
        ),
        tolerance=0,
    )


def test_latest_names_the_checkpoint_and_the_record_names_every_file(saved: tuple[Path, Outcome]) -> None:
    directory, _ = saved
    assert (directory / LATEST).read_text() == "step-00000002\n"
    step = directory / "step-00000002"
    record = CheckpointRecord.from_bytes((step / RECORD).read_bytes(), "here")
    assert set(record.files) == {path.name for path in step.iterdir()} - {RECORD}
    assert record.cursor.next_sample == 16
    assert (record.step, record.world_size, record.global_batch_size) == (2, 2, 8)


def accept(_record: CheckpointRecord) -> None:
    """Any record will do."""


def renewed(record: CheckpointRecord, step: int) -> MakeRecord:
    """A record for other files at another step."""
    return lambda files: dataclasses.replace(record, step=step, files=files)


# One process is enough for what follows: files, not ranks, are what it is about.


def load_tiny(directory: Path) -> tuple[int | None, dict[str, torch.Tensor]]:
    state = {"weight": torch.zeros(64)}
    with joined(Place(), timeout_seconds=30) as world:
        record = Checkpoints(directory, world, keep=2).load(state, accept)
    return (record.step if record else None), state


@pytest.fixture
def several(saved: tuple[Path, Outcome], tmp_path: Path) -> Path:
    """Checkpoints of the steps 1 to 4, of which two are kept."""
    record = CheckpointRecord.from_bytes((saved[0] / "step-00000002" / RECORD).read_bytes(), "here")
    with joined(Place(), timeout_seconds=30) as world:
        checkpoints = Checkpoints(tmp_path, world, keep=2)
        checkpoints.clean()
        for step in range(1, 5):
            checkpoints.save(step, {"weight": torch.full((64,), float(step))}, renewed(record, step))
    return tmp_path


def test_the_last_k_are_kept_and_the_newest_is_loaded(several: Path) -> None:
    assert sorted(path.name for path in several.iterdir()) == [LATEST, "step-00000003", "step-00000004"]
    step, state = load_tiny(several)
    assert (step, state["weight"].tolist()) == (4, [4.0] * 64)


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", RECORD])
def test_a_flipped_byte_anywhere_is_found_named_and_the_one_before_is_used(
    name: str, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = several / "step-00000004" / name
    data = bytearray(path.read_bytes())
    for position in range(0, len(data), max(len(data) // 12, 1)):
        changed = bytearray(data)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        step, state = load_tiny(several)
        assert (step, state["weight"].tolist()) == (3, [3.0] * 64)
        said = capsys.readouterr().err
        assert "CHECKPOINT DAMAGED" in said
        assert str(path) in said


@pytest.mark.parametrize("change", ["truncated", "missing", "no record"])
def test_a_checkpoint_that_lost_something_is_passed_over(change: str, several: Path) -> None:
    path = several / "step-00000004" / (RECORD if change == "no record" else "__0_0.distcp")
    if change == "truncated":
        path.write_bytes(path.read_bytes()[:-3])
    else:
        path.unlink()
    assert load_tiny(several)[0] == 3


def test_when_all_are_damaged_nothing_starts_from_zero(several: Path) -> None:
    for path in several.glob("step-*/__0_0.distcp"):
        path.write_bytes(b"")
    with pytest.raises(DamageError, match="step-00000003, step-00000004"):
        load_tiny(several)


def test_a_damaged_checkpoint_gives_way_to_its_replay_but_is_kept(several: Path) -> None:
    record = CheckpointRecord.from_bytes((several / "step-00000004" / RECORD).read_bytes(), "here")
    (several / "step-00000004" / "__0_0.distcp").write_bytes(b"")
    with joined(Place(), timeout_seconds=30) as world:
        checkpoints = Checkpoints(several, world, keep=2)
        checkpoints.save(
            4,
            {"weight": torch.full((64,), 4.5)},
            renewed(record, 4),
        )
    assert load_tiny(several)[1]["weight"].tolist() == [4.5] * 64
    assert (several / "damaged-step-00000004").is_dir()


def test_damaged_checkpoints_ahead_do_not_push_out_whole_ones(several: Path) -> None:
    """The run fell back from 8 over 6 to 4; what it saves next is not the oldest of too many."""
    record = CheckpointRecord.from_bytes((several / "step-00000004" / RECORD).read_bytes(), "here")
    for step in (6, 8):
        shutil.copytree(several / "step-00000004", several / f"step-{step:08d}")
        (several / f"step-{step:08d}" / RECORD).write_bytes(b"")
    with joined(Place(), timeout_seconds=30) as world:
        checkpoints = Checkpoints(several, world, keep=1)
        checkpoints.save(5, {"weight": torch.full((64,), 5.0)}, renewed(record, 5))
    assert load_tiny(several)[0] == 5


def test_what_a_killed_writer_left_is_neither_loaded_nor_in_the_way(several: Path) -> None:
    """A kill before the rename leaves `.tmp-…`; after it, the checkpoint counts although `latest` is old (C14)."""
    shutil.copytree(several / "step-00000004", several / ".tmp-step-00000005")
    (several / ".tmp-0123-latest").write_text("step-0000")
    assert load_tiny(several)[0] == 4
    (several / LATEST).write_text("step-00000003\n")
    assert load_tiny(several)[0] == 4
    with joined(Place(), timeout_seconds=30) as world:
        Checkpoints(several, world, keep=2).clean()
    assert not list(several.glob(".tmp-*"))


def test_law_6_whole_or_absent_at_twenty_kills_during_saves(several: Path) -> None:
    """A process saves without pause and is killed at a random instant, twenty times (C14)."""
    chance = random.Random(6)
    newest = 4
    for _ in range(20):
        saver = start_saver(several, newest)
        time.sleep(chance.random() * 0.1)
        saver.kill()
        saver.join()
        step, state = load_tiny(several)
        assert step is not None
        assert step >= newest
        assert state["weight"].tolist() == [float(step)] * 64
        newest = step
    assert newest > 10, "it must have been saving"


def start_saver(directory: Path, newest: int) -> ForkServerProcess:
    started = SERVER.Event()
    process = SERVER.Process(target=save_for_ever, args=(directory, newest, started))
    process.start()
    while not started.wait(0.1):
        assert process.is_alive()
    return process


def save_for_ever(directory: Path, newest: int, started: Event) -> None:
    state = {"weight": torch.zeros(64)}
    with joined(Place(), timeout_seconds=30) as world:
        checkpoints = Checkpoints(directory, world, keep=2)
        checkpoints.clean()
        record = checkpoints.load(state, accept)
        assert record is not None
        assert record.step == newest
        started.set()
        for step in itertools.count(newest + 1):
            state["weight"].fill_(step)
            checkpoints.save(step, state, renewed(record, step))


def test_no_checkpoint_at_all_is_a_start(tmp_path: Path) -> None:
    assert load_tiny(tmp_path / "none")[0] is None
