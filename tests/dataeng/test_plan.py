import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.plan import MAX_SAMPLE, Plan, Positions
from headrace.dataeng.source import PlanSource, TokenizerKey
from headrace.errors import InputError, MismatchError, UsageError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.cursor import Cursor
from tests.datasets import random_documents, write_dataset

TOKENIZER = TokenizerKey(sha256="ab" * 32, vocab_size=1000)
T = 10


def source(name: str, sequences: list[int], weight: float = 1.0) -> PlanSource:
    """A source without files whose shards hold the given numbers of sequences of `T`."""
    return PlanSource(
        name=name,
        content_hash=sha256_hex(name.encode()),
        tokens=np.array([n * T + 1 for n in sequences], np.int64),
        tokenizer=TOKENIZER,
        weight=weight,
    )


def make(*sources: PlanSource, **order: Any) -> Plan:
    return Plan.create(sources, sequence_length=T, **{"lanes": 12, "window": 16, **order})


def triples(positions: Positions) -> list[tuple[int, int, int, int]]:
    columns = (positions.source, positions.epoch, positions.shard, positions.sequence)
    return list(zip(*(column.tolist() for column in columns), strict=True))


shard_sizes = st.lists(st.integers(0, 12), min_size=1, max_size=12).filter(any)
mixtures = st.lists(st.tuples(shard_sizes, st.sampled_from([1.0, 0.5, 3, 0.01])), min_size=1, max_size=4)


@given(mixtures, st.lists(st.integers(0, MAX_SAMPLE - 1), max_size=20), st.integers(0, 2**63 - 1))
@settings(deadline=None)
def test_law_1_locate_is_a_pure_function_of_plan_and_id(
    mixture: list[tuple[list[int], float]], ids: list[int], seed: int
) -> None:
    sources = [source(f"s{k}", sizes, weight) for k, (sizes, weight) in enumerate(mixture)]
    plan, fresh = make(*sources, seed=seed), make(*sources, seed=seed)
    together = triples(plan.locate(ids))
    one_by_one = [triples(fresh.locate([i]))[0] for i in reversed(ids)][::-1]
    assert together == one_by_one
    for k, _, shard, sequence in together:
        assert 0 <= sequence < mixture[k][0][shard]


@given(shard_sizes, st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32))
@settings(deadline=None)
def test_law_1_each_epoch_of_one_source_is_every_sequence_once(
    sizes: list[int], lanes: int, window: int, seed: int
) -> None:
    """Cases B3 and B4: 2 samples in 40 lanes, an epoch that is a multiple of nothing."""
    count = sum(sizes)
    plan = make(source("s", sizes), lanes=lanes, window=window, seed=seed)
    every = sorted((shard, sequence) for shard, size in enumerate(sizes) for sequence in range(size))
    for epoch in range(3):
        found = triples(plan.locate(range(epoch * count, (epoch + 1) * count)))
        assert {e for _, e, _, _ in found} == {epoch}
        assert sorted((shard, sequence) for _, _, shard, sequence in found) == every


@given(mixtures.filter(lambda m: len(m) > 1))
@settings(deadline=None, max_examples=30)
def test_law_1_a_mixture_draws_each_source_without_hole_or_repeat(
    mixture: list[tuple[list[int], float]],
) -> None:
    """Within a lane a source's draws follow each other; over all lanes no (epoch, sequence) comes twice."""
    sources = [source(f"s{k}", sizes, weight) for k, (sizes, weight) in enumerate(mixture)]
    found = triples(make(*sources).locate(range(2000)))
    assert len(set(found)) == len(found)


def test_law_1_the_order_of_a_source_does_not_depend_on_its_companions() -> None:
    alone = make(source("a", [50, 50, 50]))
    mixed = make(source("b", [9]), source("a", [50, 50, 50], 2.0))
    lane = 5
    of_a = [t[1:] for t in triples(mixed.locate(range(lane, 12 * 60, 12))) if t[0] == 1]
    assert of_a == [t[1:] for t in triples(alone.locate(range(lane, 12 * len(of_a), 12)))]


def test_law_1_every_part_of_the_order_enters_the_hash() -> None:
    """Case B30."""
    base: dict[str, Any] = {
        "seed": 1,
        "lanes": 12,
        "window": 16,
        "mask_document_labels": True,
        "sequence_length": T,
    }
    changes: dict[str, Any] = {
        "seed": 2,
        "lanes": 24,
        "window": 17,
        "mask_document_labels": False,
        "sequence_length": T - 1,
    }
    sources = [source("a", [20]), source("b", [30], 2.0)]
    reference = Plan.create(sources, **base)
    hashes = {Plan.create(sources, **{**base, name: value}).hash for name, value in changes.items()}
    hashes.add(Plan.create(sources[::-1], **base).hash)
    hashes.add(Plan.create([sources[0], dataclasses.replace(sources[1], weight=2.5)], **base).hash)
    hashes.add(Plan.create([sources[0], source("c", [30], 2.0)], **base).hash)
    other = dataclasses.replace(TOKENIZER, sha256="cd" * 32)
    hashes.add(Plan.create([dataclasses.replace(s, tokenizer=other) for s in sources], **base).hash)
    assert len(hashes) == 9
    assert reference.hash not in hashes


def test_law_1_names_and_places_do_not_enter_the_hash() -> None:
    a = source("a", [20])
    moved = dataclasses.replace(a, name="renamed", uri="s3://elsewhere/a")
    assert make(a).hash == make(moved).hash


def test_law_1_golden_order() -> None:
    """Algorithm 1, for ever: what these ids meant when it was published."""
    path = Path(__file__).parent / "golden" / "order_v1.txt"
    plan = make(source("a", [5, 0, 7, 3, 9], 3), source("b", [2, 2], 1), seed=7).extend(
        100, [source("b", [2, 2], 1), source("c", [11, 6], 1)]
    )
    ids = [*range(12), *range(95, 105), 10**6, 10**12, MAX_SAMPLE - 1]
    lines = [f"hash {plan.hash}"]
    lines += [f"{i}: {' '.join(map(str, t))}" for i, t in zip(ids, triples(plan.locate(ids)), strict=True)]
    assert lines == path.read_text().splitlines()


@given(mixtures, st.integers(0, 500), mixtures)
@settings(deadline=None, max_examples=40)
def test_law_3_a_new_stage_leaves_every_earlier_id_where_it_was(
    mixture: list[tuple[list[int], float]], start: int, added: list[tuple[list[int], float]]
) -> None:
    """Case B27."""
    plan = make(*(source(f"s{k}", sizes, w) for k, (sizes, w) in enumerate(mixture)))
    longer = plan.extend(start + 1, [source(f"t{k}", sizes, w) for k, (sizes, w) in enumerate(added)])
    ids = range(start + 1)
    assert triples(longer.locate(ids)) == triples(plan.locate(ids))
    after = triples(longer.locate(range(start + 1, start + 60)))
    assert {t[0] for t in after}.isdisjoint(range(len(mixture)))


@given(st.integers(1, 400), st.integers(1, 400))
@settings(deadline=None, max_examples=40)
def test_law_3_a_source_goes_on_where_it_stood_through_stages(first: int, second: int) -> None:
    """No repeat and no hole in a source's epochs, whatever stages it passes through."""
    a, b = source("a", [40, 40, 40]), source("b", [30, 30])
    plan = make(a, b).extend(first, [a]).extend(first + second, [b, dataclasses.replace(a, weight=3.0)])
    found = [t for t in triples(plan.locate(range(first + second + 300))) if t[0] == 0]
    assert len(set(found)) == len(found)
    lanes: dict[int, int] = {}
    alone = make(a)
    for i, t in enumerate(triples(plan.locate(range(first + second + 300)))):
        if t[0] == 0:
            draw = lanes.get(i % 12, 0)
            lanes[i % 12] = draw + 1
            assert triples(alone.locate([draw * 12 + i % 12]))[0] == t


def test_law_3_cursors_before_a_new_stage_stay_valid_and_later_ones_are_refused() -> None:
    plan = make(source("a", [40]))
    longer = plan.extend(100, [source("b", [40])])
    assert longer.check(plan.cursor(100)) == 100
    with pytest.raises(MismatchError, match="Append the stage at 101 or later"):
        longer.check(plan.cursor(101))
    with pytest.raises(MismatchError, match="stages"):
        plan.check(longer.cursor(5))


def test_law_2_a_cursor_of_another_plan_is_refused_with_what_differs() -> None:
    plan, other = make(source("a", [40])), make(source("a", [40]), seed=9, window=32)
    with pytest.raises(MismatchError, match=r"seed \(cursor 0, plan 9\).*window \(cursor 16, plan 32\)"):
        other.check(plan.cursor(7))
    with pytest.raises(MismatchError, match="datasets"):
        make(source("b", [40])).check(plan.cursor(7))


def test_law_2_a_cursor_is_under_one_kilobyte_for_many_sources_and_stages() -> None:
    plan = make(*(source(f"s{k}", [3]) for k in range(200)))
    for stage in range(1, 40):
        plan = plan.extend(stage, [source(f"s{stage}", [3])])
    assert len(plan.cursor(MAX_SAMPLE).to_json()) < 1024


def test_mixture_stays_near_its_weights_in_every_batch_and_every_prefix() -> None:
    """The published bounds: +-5 in a batch of 1,024 and +-20 in any prefix, weights down to 1e-4."""
    weights = [0.5, 0.3, 0.15, 0.0399, 0.01, 0.0001]
    plan = make(*(source(f"s{k}", [1000], w) for k, w in enumerate(weights)), lanes=960)
    drawn = plan.locate(range(1 << 19)).source
    for k, weight in enumerate(weights):
        hit = (drawn == k).astype(np.int64)
        batches = hit.reshape(-1, 1024).sum(axis=1)
        prefixes = np.cumsum(hit) - weight * np.arange(1, len(hit) + 1)
        assert np.abs(batches - 1024 * weight).max() <= 5
        assert np.abs(prefixes).max() <= 20


def test_ranks_of_a_world_that_divides_the_lanes_share_few_shards() -> None:
    """Locality: with R dividing the lanes, each rank's lanes are runs of its own; shards meet only at the seams."""
    plan = make(source("a", [8] * 240), lanes=24, window=8)
    where = plan.locate(range(240 * 8))
    for world in (2, 4, 8):
        per_rank = [set(where.shard[r::world].tolist()) for r in range(world)]
        assert sum(map(len, per_rank)) <= 240 + 24


def test_a_batch_smaller_than_the_lanes_is_drawn_from_all_over_the_source() -> None:
    """16 consecutive ids of 960 lanes over 64 shards: as many shards as 16 random draws meet, 14.3 on average."""
    plan = make(source("a", [300] * 64), lanes=960)
    where = plan.locate(range(64 * 300))
    met = [len(set(batch)) for batch in where.shard.reshape(-1, 16).tolist()]
    expected = 64 * (1 - (63 / 64) ** 16)
    assert abs(sum(met) / len(met) - expected) < 0.3
    assert min(met) >= 8


def test_a_plan_file_is_read_back_to_the_same_plan(tmp_path: Path) -> None:
    for k in range(2):
        write_dataset(tmp_path / f"d{k}", [random_documents(k, 30)])
    plan = Plan.create(
        [PlanSource.open(tmp_path / "d0"), PlanSource.open(tmp_path / "d1", weight=0.25)], sequence_length=7
    ).extend(50, [PlanSource.open(tmp_path / "d1")])
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == plan.hash
    assert triples(again.locate(range(200))) == triples(plan.locate(range(200)))
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "plan.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"hash": "0" * 64}, MismatchError, "its content has"),
        ({"algorithm": 2}, InputError, "algorithm 2"),
        ({"version": 9}, InputError, "version 9"),
        ({"format": "x"}, InputError, "not a headrace plan"),
        ({"stages": []}, InputError, "at least one"),
        ({"stages": [{"start": 3, "weights": [1]}]}, UsageError, "start at sample 0"),
        ({"stages": [{"start": 0, "weights": [1, 1, 1]}]}, InputError, "more weights"),
        ({"stages": [{"start": 0}]}, InputError, "missing"),
        ({"stages": [{"start": 0, "weights": [float("nan")]}]}, InputError, "not finite"),
        ({"stages": [{"start": 0, "weights": [-1.0]}]}, UsageError, "weight -1.0"),
        ({"stages": [{"start": 0, "weights": [10**400]}]}, InputError, "wrong type"),
        ({"stages": [{"start": 0, "weights": [[]]}]}, InputError, "wrong type"),
        ({"sources": [{"name": 1, "uri": "d", "content_hash": "0" * 64}]}, InputError, "name is 1"),
        ({"sources": 5}, InputError, "wrong type"),
        ({"order": {"seed": 1}}, InputError, "expected order"),
    ],
)
def test_an_altered_plan_file_is_refused(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    write_dataset(tmp_path / "d", [random_documents(0, 30)])
    path = tmp_path / "plan.json"
    Plan.create([PlanSource.open(tmp_path / "d")], sequence_length=7).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(error, match=message):
        Plan.load(path)


def test_a_plan_whose_dataset_became_another_is_refused_by_name(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d", [random_documents(0, 30)])
    Plan.create([PlanSource.open(tmp_path / "d")], sequence_length=7).save(tmp_path / "plan.json")
    write_dataset(tmp_path / "d", [random_documents(1, 30)])
    with pytest.raises(MismatchError, match="dataset 'd'"):
        Plan.load(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("sources", "order", "message"),
    [
        ([], {}, "at least one source"),
        ([source("a", [3]), source("a", [3])], {}, "two sources have the name"),
        ([source("a", [0])], {}, "no shard holds the 11 tokens"),
        ([source("a", [3], 0.0)], {}, "every weight"),
        ([source("a", [3])], {"lanes": 0}, "lanes is 0"),
        ([source("a", [3])], {"window": True}, "window is True"),
        ([source("a", [3])], {"seed": -1}, "seed is -1"),
        (
            [
                source("a", [3]),
                dataclasses.replace(source("b", [3]), tokenizer=TokenizerKey(sha256="cd" * 32, vocab_size=9)),
            ],
            {},
            "different tokenizers",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(
    sources: list[PlanSource], order: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make(*sources, **order)


def test_a_path_where_a_source_belongs_is_refused_with_how_to_open_it() -> None:
    with pytest.raises(UsageError, match=r"found 'corpus/'; open a dataset with PlanSource\.open"):
        Plan.create(["corpus/"], sequence_length=9)  # type: ignore[list-item]


@pytest.mark.parametrize("ids", [[-1], [MAX_SAMPLE], [0, 2**64 - 1]])
def test_ids_out_of_range_are_refused(ids: list[int]) -> None:
    with pytest.raises(UsageError, match="sample ids"):
        make(source("a", [3])).locate(ids)


def test_a_cursor_from_nowhere_is_refused() -> None:
    with pytest.raises(MismatchError, match="belongs to plan 0000"):
        make(source("a", [3])).check(Cursor(next_sample=0, plan_hash="0" * 64))
