from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.kernels.facts_reference import facts_reference
from headrace.kernels.words import words_reference
from headrace.tokenize.filters.chain import Chain, take
from headrace.tokenize.filters.config import Decontamination, FilterConfig
from headrace.tokenize.filters.decontamination import read_evaluations
from headrace.tokenize.filters.hook import HookSource
from headrace.tokenize.filters.prepare import Prepared


@dataclass
class Without:
    """Rejects texts that hold one of some letters, each letter a reason of its own."""

    letters: str

    @property
    def reasons(self) -> Sequence[str]:
        return list(self.letters)

    def judge(self, texts: Any) -> NDArray[np.uint8]:
        found = [
            next((n for n, letter in enumerate(self.letters, 1) if letter in text), 0)
            for text in texts.to_pylist()
        ]
        return np.array(found, np.uint8)


@given(
    texts=st.lists(st.text("abcdx", max_size=4)), letters=st.lists(st.text("abcd", min_size=1, max_size=2))
)
def test_each_filter_sees_what_those_before_it_kept_and_every_text_is_kept_or_has_one_reason(
    texts: list[str], letters: list[str]
) -> None:
    filtered = Chain([Without(some) for some in letters]).apply(pa.array(texts, pa.large_string()), str)
    kept, rejected = [], dict[str, list[int]]()
    for position, text in enumerate(texts):
        reason = next((letter for some in letters for letter in some if letter in text), None)
        if reason is None:
            kept.append(position)
        else:
            rejected.setdefault(reason, []).append(position)
    assert filtered.kept.tolist() == kept
    assert filtered.texts.to_pylist() == [texts[position] for position in kept]
    assert {reason: found.tolist() for reason, found in filtered.rejected.items()} == rejected


def test_a_chain_without_filters_is_false_and_keeps_everything() -> None:
    assert not Chain([])
    assert Chain([Without("a")])
    assert Chain([]).apply(pa.array(["a", "b"], pa.large_string()), str).kept.tolist() == [0, 1]


@given(values=st.lists(st.text(max_size=3)), chosen=st.sets(st.integers(0, 20)))
def test_taking_ascending_positions(values: list[str], chosen: set[int]) -> None:
    positions = sorted(number for number in chosen if number < len(values))
    column = pa.array(values, pa.large_string())
    assert take(column, np.array(positions, np.int64)).to_pylist() == [values[n] for n in positions]


ALL: Any = {
    "min_chars": 3,
    "max_chars": 40,
    "quality": {"max_repeated_lines": 0.4, "min_lettered_words": 0.5, "max_top_2gram_chars": 0.5},
}
EVALUATION = "the mill wheel turns and turns again all night"
SENTENCES = st.lists(
    st.sampled_from([*EVALUATION.split(), EVALUATION, "\n", "7", "!", "été", "水車", "me@example.org", "drop"]), max_size=12
).map(" ".join)  # fmt: skip


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """All filters there are."""
    directory = tmp_path_factory.mktemp("everything")
    (directory / "e.txt").write_text(EVALUATION)
    source = "def clean(texts):\n    return [None if 'drop' in t else t.replace('me@example.org', 'WHO') for t in texts]\n"
    hook = HookSource(
        name="a_hook_of_this_test:clean", path="hook.py", root=str(directory), source=source.encode()
    )
    return Prepared(
        config=FilterConfig(**ALL),
        hook=hook,
        evaluations=read_evaluations(Decontamination(places=(str(directory / "e.txt"),), ngram=4)),
    )


def outcome_by_definition(text: str) -> tuple[str | None, str | None]:
    """The text that is kept, or why it is not: each filter in plain Python."""
    if "drop" in text:
        return None, "hook"
    text = text.replace("me@example.org", "WHO")
    if not text.strip():
        return None, "hook"
    if len(text) < ALL["min_chars"]:
        return None, "length:short"
    if len(text) > ALL["max_chars"]:
        return None, "length:long"
    known = facts_reference(text)
    if known["lettered_words"] < 0.5 * known["words"]:
        return None, "quality:min_lettered_words"
    if known["repeated_lines"] > 0.4 * known["lines"]:
        return None, "quality:max_repeated_lines"
    if known["top_2gram_chars"] > 0.5 * known["chars"]:
        return None, "quality:max_top_2gram_chars"
    words = words_reference(text)
    sought = words_reference(EVALUATION)
    runs = [sought[begin : begin + 4] for begin in range(len(sought) - 3)]
    if any(words[begin : begin + 4] in runs for begin in range(len(words) - 3)):
        return None, "contaminated:e.txt"
    return text, None


@settings(deadline=None)
@given(texts=st.lists(SENTENCES, max_size=8), cuts=st.sets(st.integers(0, 8)))
def test_law_4_all_filters_together_are_their_definitions_however_texts_are_batched(
    everything: Prepared, texts: list[str], cuts: set[int]
) -> None:
    chain = everything.chain()
    found: list[tuple[str | None, str | None]] = []
    bounds = sorted({0, len(texts), *(cut for cut in cuts if cut < len(texts))})
    for begin, end in pairwise(bounds):
        filtered = chain.apply(pa.array(texts, pa.large_string()).slice(begin, end - begin), str)
        some: dict[int, tuple[str | None, str | None]] = {
            position: (text, None)
            for position, text in zip(filtered.kept.tolist(), filtered.texts.to_pylist(), strict=True)
        }
        for reason, positions in filtered.rejected.items():
            some |= dict.fromkeys(positions.tolist(), (None, reason))
        found += [some[position] for position in range(end - begin)]
    assert found == [outcome_by_definition(text) for text in texts]
