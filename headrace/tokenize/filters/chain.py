"""The filters of a job one behind the other, each on what those before it kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headrace.tokenize.filters.hook import Hook
from headrace.tokenize.filters.reasons import HOOK


class Filter(Protocol):
    """Judges documents, each by its own text."""

    @property
    def reasons(self) -> Sequence[str]:
        """Why it may reject a document: at most 255, none of them another filter's."""
        ...

    def judge(self, texts: Any) -> NDArray[np.uint8]:
        """uint8 [texts] of a LargeStringArray without nulls: 0 is kept, n is rejected for `reasons[n - 1]`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Filtered:
    """What is left of some texts.

    texts: LargeStringArray of those that are kept, as they are to be tokenized. kept: int64 [kept], their positions,
    ascending. rejected: for each reason the positions of others, ascending.
    """

    texts: Any
    kept: NDArray[np.int64]
    rejected: dict[str, NDArray[np.int64]]


class Chain:
    """Use one in each thread that filters."""

    def __init__(self, filters: Sequence[Filter], hook: Hook | None = None) -> None:
        self._filters, self._hook = tuple(filters), hook

    def __bool__(self) -> bool:
        """Whether it does anything."""
        return bool(self._filters) or self._hook is not None

    @property
    def changes_texts(self) -> bool:
        """Whether a text may come out as another one, possibly larger."""
        return self._hook is not None

    def apply(self, texts: Any, describe: Callable[[int], str]) -> Filtered:
        """texts: LargeStringArray without nulls. describe: where the text at a position is, for messages.

        Raises:
            UsageError: the hook raises, or does not do what a hook has to.
        """
        kept = np.arange(len(texts))
        rejected: dict[str, NDArray[np.int64]] = {}
        if self._hook is not None and len(kept):
            texts, left_out = self._hook.apply(texts, describe)
            if left_out.any():
                rejected[HOOK] = kept[left_out]
                kept = kept[~left_out]
                texts = take(texts, kept)
        for each in self._filters:
            if not len(kept):
                break
            verdict = each.judge(texts)
            passed = verdict == 0
            if passed.all():
                continue
            for number in np.unique(verdict[~passed]).tolist():
                rejected[each.reasons[number - 1]] = kept[verdict == number]
            kept, texts = kept[passed], take(texts, np.flatnonzero(passed))
        return Filtered(texts=texts, kept=kept, rejected=rejected)


def take(column: Any, positions: NDArray[np.int64]) -> Any:
    """The values of an Arrow array at ascending positions; a view if there are no gaps."""
    count = len(positions)
    first = int(positions[0]) if count else 0
    if not count or int(positions[-1]) - first + 1 == count:
        return column.slice(first, count)
    return column.take(positions)
