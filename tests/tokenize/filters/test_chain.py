from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.tokenize.filters.chain import Chain, take


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
