import itertools
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.batch import Batch
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.loader import Loader
from headrace.dataeng.plan import Plan
from headrace.dataeng.shards import OpenShards, Shard
from headrace.dataeng.source import PlanSource
from headrace.dataeng.storage import Store
from headrace.errors import DamageError, InputError, MismatchError, UsageError
from headrace.kernels.gather import row_reference
from headrace.manifests.cursor import Cursor
from tests.datasets import random_documents, write_dataset

T = 12


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[list[int]]]]:
    return {
        "big": [random_documents(s, 30 + s) for s in range(9)],
        "small": [random_documents(100 + s, 6) for s in range(2)],
    }


@pytest.fixture(scope="module")
def plan(corpus: dict[str, list[list[list[int]]]], tmp_path_factory: pytest.TempPathFactory) -> Plan:
    root = tmp_path_factory.mktemp("corpus")
    sources = [
        PlanSource.open(write_dataset(root / name, shards), weight=weight)
        for (name, shards), weight in zip(corpus.items(), (0.7, 0.3), strict=True)
    ]
    return Plan.create(sources, sequence_length=T, lanes=12, window=32, seed=5)


def test_law_1_rows_are_what_the_plan_and_the_documents_say(
    plan: Plan, corpus: dict[str, list[list[list[int]]]]
) -> None:
    batch = next(Loader(plan, global_batch_size=200, threads=0))
    where = plan.locate(batch.sample_ids)
    shards = list(corpus.values())
    total = 0
    for row, sample in enumerate(batch.sample_ids.tolist()):
        documents = shards[where.source[row]][where.shard[row]]
        inputs, labels, positions, digest = row_reference(
            documents, int(where.sequence[row]) * T, T, sample, mask_document_labels=True
        )
        assert batch.inputs[row].tolist() == inputs
        assert batch.labels[row].tolist() == labels
        assert batch.positions[row].tolist() == positions
        total += digest
    assert batch.digest == total % 2**64
    starts = np.flatnonzero(batch.positions.ravel() == 0).tolist()
    assert batch.cu_seqlens.tolist() == [*starts, 200 * T]


_GRID = list(itertools.product((0, 37, 480, 481), (1, 2, 3, 4), (0, 1, 3), (8, 16, 4)))


@pytest.mark.parametrize(("start", "world", "threads", "batch"), _GRID)
def test_laws_1_and_2_the_stream_does_not_depend_on_ranks_threads_batch_or_resumes(
    plan: Plan, start: int, world: int, threads: int, batch: int
) -> None:
    """One rolling hash over the grid of cases B1, B4, B17, B18, B23, B31 and C17: 480 is an epoch border of a lane."""
    reference = next(Loader(plan, global_batch_size=64, threads=0, cursor=plan.cursor(start)))
    found = np.zeros((64, T), np.int64)
    digests = [0] * (64 // batch)
    for rank in range(world):
        cursor = plan.cursor(start)
        for first, last in (
            (0, 24 // batch * batch),
            (24 // batch * batch, 64),
        ):  # two jobs: a restart between
            loader = Loader(
                plan,
                global_batch_size=batch,
                rank=rank,
                world_size=world,
                threads=threads,
                cursor=Cursor.from_json(cursor.to_json()),
                num_steps=(last - first) // batch,
            )
            with loader:
                for part in loader:
                    found[part.sample_ids - start] = part.inputs
                    step = (part.first_sample - start) // batch
                    digests[step] += part.digest
                    cursor = part.cursor
                assert loader.state_dict() == cursor.to_dict()
    assert np.array_equal(found, reference.inputs)
    assert sum(digests) % 2**64 == reference.digest


def test_law_2_state_is_what_was_handed_out_not_what_was_prefetched(plan: Plan) -> None:
    with Loader(plan, global_batch_size=8, threads=3, prefetch=6) as loader:
        for step in range(1, 6):
            assert next(loader).cursor.next_sample == step * 8
            assert loader.state_dict()["next_sample"] == step * 8


@given(st.integers(0, 2**61))
@settings(deadline=None, max_examples=20)
def test_law_2_loading_then_saving_without_reading_is_the_identity(plan: Plan, sample: int) -> None:
    loader = Loader(plan, global_batch_size=8, threads=0)
    loader.load_state_dict(plan.cursor(sample).to_dict())
    assert loader.state_dict() == plan.cursor(sample).to_dict()


def test_law_2_restoring_at_every_position_gives_the_rest(plan: Plan) -> None:
    whole = [(b.first_sample, b.digest) for b in Loader(plan, global_batch_size=6, threads=0, num_steps=12)]
    state = Loader(plan, global_batch_size=6, threads=0).state_dict()
    for step in range(12):
        loader = Loader(plan, global_batch_size=6, threads=0, num_steps=12 - step)
        loader.load_state_dict(state)
        tail = []
        for batch in loader:
            tail.append((batch.first_sample, batch.digest))
            if len(tail) == 1:
                state = loader.state_dict()
        assert tail == whole[step:]


def test_a_state_loaded_after_the_first_batch_is_refused(plan: Plan) -> None:
    """Case B21: iter() itself hands out nothing, so a state may still follow it."""
    loader = Loader(plan, global_batch_size=4, threads=0)
    iterator = iter(loader)
    loader.load_state_dict(plan.cursor(40).to_dict())
    assert next(iterator).first_sample == 40
    with pytest.raises(UsageError, match="after the first batch"):
        loader.load_state_dict(plan.cursor(8).to_dict())


def test_a_state_of_another_plan_or_no_state_is_refused(plan: Plan) -> None:
    loader = Loader(plan, global_batch_size=4, threads=0)
    with pytest.raises(MismatchError, match="differ in"):
        loader.load_state_dict({**plan.cursor(3).to_dict(), "plan_hash": "0" * 64})
    with pytest.raises(InputError, match="format"):
        loader.load_state_dict({"epoch": 3})


@pytest.mark.parametrize(
    ("end", "world", "batch"), [(7, 2, 2), (8, 4, 1), (1, 2, 1), (0, 3, 4), (13, 4, 2), (6, 1, 4)]
)
def test_law_9_every_rank_yields_the_same_number_of_steps(
    plan: Plan, end: int, world: int, batch: int
) -> None:
    """Cases B4, B5, B14, B23: any count, any ranks; together each id once."""
    ids, steps = [], []
    for rank in range(world):
        loader = Loader(plan, global_batch_size=batch, rank=rank, world_size=world, end_sample=end)
        with loader:
            batches = list(loader)
        steps.append(len(batches))
        ids += [i for b in batches for i in b.sample_ids.tolist()]
    assert set(steps) == {-(-end // batch)}
    assert sorted(ids) == list(range(end))


def test_an_old_cursor_goes_on_in_a_plan_that_was_extended(plan: Plan) -> None:
    """Law 3: the samples before the new stage are the same, and the state becomes the new plan's."""
    longer = plan.extend(20, [plan.sources[1]])
    old = next(Loader(plan, global_batch_size=20, threads=0))
    loader = Loader(longer, global_batch_size=4, threads=0, cursor=plan.cursor(16))
    assert np.array_equal(next(loader).inputs, old.inputs[16:])
    assert loader.state_dict()["plan_hash"] == longer.hash
    assert set(longer.locate(next(loader).sample_ids).source.tolist()) == {1}


@pytest.mark.parametrize("where", ["local", "s3"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_law_10_the_same_stream_comes_from_any_store(
    plan: Plan,
    corpus: dict[str, list[list[list[int]]]],
    where: str,
    compression: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    sources = []
    for name, shards in corpus.items():
        root = write_dataset(tmp_path / name, shards, compression=compression)
        uri = str(root)
        if where == "s3":
            uri = f"{request.getfixturevalue('s3_bucket')}/{name}"
            for path in root.iterdir():
                Store(uri).write(path.name, path.read_bytes())
        sources.append(PlanSource.open(uri, weight=0.7 if name == "big" else 0.3))
    other = Plan.create(sources, sequence_length=T, lanes=12, window=32, seed=5)
    assert other.hash == plan.hash
    expected = [b.digest for b in Loader(plan, global_batch_size=16, threads=0, num_steps=40)]
    with Loader(other, global_batch_size=16, num_steps=40, cache_dir=tmp_path / "cache") as loader:
        assert [b.digest for b in loader] == expected
        fetched = loader.bytes_fetched
    stored = sum(r.stored_bytes for s in sources for r in Dataset.open(s.uri).shards.rows())
    in_place = where == "local" and compression == "none"
    assert fetched == (0 if in_place else stored)  # each byte once, though every shard was read many times


def test_law_7_a_damaged_shard_ends_the_stream_with_its_name_and_no_hang(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(s, 30) for s in range(4)])
    plan = Plan.create([PlanSource.open(root)], sequence_length=T, lanes=4)
    path = root / "shard.000002-000.mds"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with (
        Loader(plan, global_batch_size=16) as loader,
        pytest.raises(DamageError, match=r"shard\.000002-000\.mds"),
    ):
        list(itertools.islice(loader, 100))


@pytest.mark.parametrize("threads", [0, 2])
def test_law_8_an_error_skips_no_batch(plan: Plan, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was away for a while leaves no hole in the stream of a caller that asks again."""
    real = OpenShards.get
    away = iter([False, True, True, False])

    def get(shards: OpenShards, index: int) -> Shard:
        if not threading.current_thread().name.startswith("headrace-fetch") and next(away, False):
            raise InputError("the store is away")
        return real(shards, index)

    seen: list[int] = []
    errors = 0
    with Loader(plan, global_batch_size=8, threads=threads, num_steps=6) as loader:
        monkeypatch.setattr(OpenShards, "get", get)
        while len(seen) < 6:
            before = loader.state_dict()
            try:
                seen.append(next(loader).first_sample)
            except InputError:
                errors += 1
                assert loader.state_dict() == before
        with pytest.raises(StopIteration):
            next(loader)
    assert seen == [0, 8, 16, 24, 32, 40]
    assert errors


def test_only_shards_of_the_batches_asked_for_are_fetched(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(s, 30) for s in range(20)], compression="zstd")
    plan = Plan.create([PlanSource.open(root)], sequence_length=T, lanes=12)
    with Loader(plan, global_batch_size=2, num_steps=2, cache_dir=tmp_path / "c") as loader:
        assert len(list(loader)) == 2
    needed = set(plan.locate(range(4)).shard.tolist())
    assert {path.name for path in (tmp_path / "c").rglob("*.mds")} == {
        f"{Dataset.open(root).shards.row(index).raw_sha256}.mds" for index in needed
    }


def test_a_store_that_does_not_answer_does_not_hold_back_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_dataset(tmp_path / "d", [random_documents(s, 30) for s in range(20)], compression="zstd")
    plan = Plan.create([PlanSource.open(root)], sequence_length=T, lanes=12)
    first = {f"shard.{index:06d}-000.mds.zstd" for index in plan.locate(range(4)).shard.tolist()}
    answer = threading.Event()
    real = Store.download

    def download(store: Store, name: str, path: Path) -> None:
        if name not in first:
            answer.wait(60)
        real(store, name, path)

    monkeypatch.setattr(Store, "download", download)
    monkeypatch.setattr("headrace.dataeng.loader._CLOSE_SECONDS", 0.2)
    with Loader(plan, global_batch_size=4, cache_dir=tmp_path / "c") as loader:
        next(loader)
        began = time.monotonic()
    assert time.monotonic() - began < 10  # not the minute for which the others wait
    answer.set()


def test_an_id_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "d", [[[5] * 20, [1000] * 23]], vocab_size=1000)
    plan = Plan.create([PlanSource.open(root)], sequence_length=T)
    with (
        Loader(plan, global_batch_size=16) as loader,
        pytest.raises(DamageError, match="id 1,000; the vocabulary"),
    ):
        next(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"global_batch_size": 0}, "global_batch_size is 0"),
        ({"world_size": 2, "rank": 2}, "rank 2 of world size 2"),
        ({"threads": -1}, "threads is -1"),
        ({"prefetch": 0}, "prefetch is 0"),
        ({"num_steps": 1.5}, "num_steps is 1.5"),
    ],
)
def test_numbers_out_of_range_are_refused(plan: Plan, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Loader(plan, **{"global_batch_size": 4, **options})


def test_a_closed_loader_says_so(plan: Plan) -> None:
    loader = Loader(plan, global_batch_size=4)
    first: Batch = next(loader)
    loader.close()
    loader.close()
    with pytest.raises(UsageError, match="closed"):
        next(loader)
    assert first.cursor.next_sample == 4
