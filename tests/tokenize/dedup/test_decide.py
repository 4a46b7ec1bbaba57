from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.storage import Store
from headrace.errors import DamageError, InputError
from headrace.tokenize.dedup import decide as deciding
from headrace.tokenize.dedup.config import DedupConfig
from headrace.tokenize.dedup.decide import DocumentSet
from headrace.tokenize.dedup.journal import Decision, ScanJournal, ScanRecord
from tests.tokenize.dedup.corpora import dropped, in_order, jaccard, name_of, same_texts, scan

EXACT, NEAR = DedupConfig(kind="exact"), DedupConfig(kind="near")
WORDS = (
    "a token flows down the channel to a mill wheel whose shaft turns day and night été 水車 мельница".split()
)
# Few texts, so that most repeat one; in units without slices, slices without documents, and across all of them.
UNITS = st.lists(st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=8), max_size=3), max_size=6)


def decide(
    store: Store, scans: list[ScanRecord], config: DedupConfig, budget: int = deciding.BUDGET
) -> Decision:
    return deciding.decide(store, scans, config, name_of, budget=budget)


def corpus_of_variants(seed: int, count: int) -> list[list[list[str]]]:
    """Texts of 60 to 200 words, many of them earlier ones with some words changed, in 5 units of 2 slices."""
    draw = random.Random(seed)
    texts: list[str] = []
    for _ in range(count):
        if texts and draw.random() < 0.6:
            words = draw.choice(texts).split()
            for _ in range(draw.choice([0, 1, 1, 2, 4, 8, 30])):
                words[draw.randrange(len(words))] = f"changed{draw.randrange(10**6)}"
            texts.append(" ".join(words))
        else:
            texts.append(
                " ".join(f"{draw.choice(WORDS)}{draw.randrange(50)}" for _ in range(draw.randint(60, 200)))
            )
    parts = [texts[number::1][: -(-count // 10)] for number in range(0, count, -(-count // 10))]
    return [parts[number : number + 2] for number in range(0, len(parts), 2)]


@given(units=UNITS, budget=st.sampled_from([30, 200, 1 << 20]))
@settings(max_examples=40, deadline=None)  # it writes files
def test_exact_duplicates_are_what_a_dictionary_says_whatever_fits_in_memory(
    units: list[list[list[str]]], budget: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = Store(directory)
        decision = decide(store, scan(store, units, EXACT), EXACT, budget=budget)
        assert dropped(store, decision) == same_texts(units)


@pytest.mark.parametrize("threshold", [0.6, 0.8])
def test_near_duplicates_are_the_similar_ones(tmp_path: Path, threshold: float) -> None:
    config = DedupConfig(kind="near", threshold=threshold)
    units = corpus_of_variants(1, 300)
    store = Store(tmp_path)
    found = dropped(store, decide(store, scan(store, units, config), config))
    texts = dict(in_order(units))
    places = list(texts)
    exact = same_texts(units)
    missed = clear = 0
    for number, place in enumerate(places):
        near, first = found.get(place, (False, place))
        assert (place in exact) == (place in found and not near)
        if place in exact:
            assert found[place] == exact[place]
            continue
        if near:
            assert first < place
            assert jaccard(texts[place], texts[first]) > threshold - 0.15  # four deviations of the estimate
        best = max((jaccard(texts[place], texts[other]) for other in places[:number]), default=0.0)
        if best > threshold + 0.1:
            clear += 1
            missed += not near
        assert best > threshold - 0.15 or not near
    assert clear > 50
    assert missed <= clear // 20


def test_a_near_decision_does_not_depend_on_what_fits_in_memory(tmp_path: Path) -> None:
    units = corpus_of_variants(2, 120)
    found = []
    for budget in (3_000, 40_000, 1 << 26):
        store = Store(tmp_path / str(budget))
        found.append(dropped(store, decide(store, scan(store, units, NEAR), NEAR, budget=budget)))
    assert found[0] == found[1] == found[2]
    assert any(near for near, _ in found[0].values())


def test_documents_added_behind_leave_every_earlier_verdict_as_it_is(tmp_path: Path) -> None:
    units = corpus_of_variants(3, 200)
    some, all_of_it = Store(tmp_path / "some"), Store(tmp_path / "all")
    before = dropped(some, decide(some, scan(some, units[:3], NEAR), NEAR))
    after = dropped(all_of_it, decide(all_of_it, scan(all_of_it, units, NEAR), NEAR))
    assert {place: verdict for place, verdict in after.items() if place[0] < 3} == before


def test_texts_that_differ_in_case_and_punctuation_are_near_duplicates(tmp_path: Path) -> None:
    one = "The quick brown fox, as ever, jumps over the lazy dog and runs on."
    units = [[[one, one.upper()], ["the quick brown fox as ever jumps over the lazy dog and runs on"]]]
    store = Store(tmp_path)
    found = dropped(store, decide(store, scan(store, units, NEAR), NEAR))
    assert found == {(0, 0, 4): (True, (0, 0, 3)), (0, 1, 3): (True, (0, 0, 3))}


def test_texts_without_words_are_like_no_other(tmp_path: Path) -> None:
    units = [[["!!!", "???", "…", "!!!"]]]
    store = Store(tmp_path)
    assert dropped(store, decide(store, scan(store, units, NEAR), NEAR)) == {(0, 0, 6): (False, (0, 0, 3))}


def test_a_text_repeated_more_often_than_fits_in_memory(tmp_path: Path) -> None:
    units = [[["again"] * 2_000], [["other", *["again"] * 2_000]]]
    store = Store(tmp_path)
    decision = decide(store, scan(store, units, EXACT), EXACT, budget=1_000)
    assert dropped(store, decision) == same_texts(units)


def test_a_decision_is_made_once_and_again_when_a_scan_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    scans = scan(store, [[["a", "a"]], [["b"]]], EXACT)
    first = decide(store, scans, EXACT)
    with monkeypatch.context() as patched:
        patched.setattr(deciding, "_Deciding", None)
        assert decide(store, scans, EXACT) == first
    assert dropped(store, decide(store, scan(store, [[["a", "a"]], [["a"]]], EXACT), EXACT)) == {
        (0, 0, 4): (False, (0, 0, 3)),
        (1, 0, 3): (False, (0, 0, 3)),
    }


def test_a_damaged_file_of_keys_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    store = Store(tmp_path)
    scans = scan(store, [[["a", "a"]]], EXACT)
    store.write(scans[0].keys[0].name, b"something else")
    with pytest.raises(DamageError, match=r"000000-000\.keys\.parquet: .*run the same command again"):
        decide(store, scans, EXACT)


def test_no_room_for_scratch_files_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    scans = scan(store, [[["a", "a"] * 100]], EXACT)

    class Full(tempfile.SpooledTemporaryFile):  # type: ignore[type-arg]
        def write(self, _data: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.tokenize.dedup.scratch.tempfile.SpooledTemporaryFile", Full)
    with pytest.raises(InputError, match=r"No space left on device; .*TMPDIR"):
        decide(store, scans, EXACT)
    assert ScanJournal(store).decision("") is None


@given(documents=st.lists(st.integers(0, 99), max_size=40))
def test_a_set_of_documents_is_a_set(documents: list[int]) -> None:
    found = DocumentSet(100)
    found.add(np.array(documents, np.uint64))
    assert set(np.flatnonzero(found.has(np.arange(100, dtype=np.uint64))).tolist()) == set(documents)
