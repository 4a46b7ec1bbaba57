"""Rules that tell text from the rest without knowing its language: thresholds on what can be counted.

The rules are those of MassiveText (Rae et al. 2021, "Gopher", appendix A1.1), of FineWeb (Penedo et al. 2024) and of StarCoder
(Li et al. 2023), less the ones that need a list of English words. docs/filters.md says each, and where it differs.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import InputError, UsageError
from headrace.tokenize.filters.reasons import QUALITY


@dataclass(frozen=True, slots=True)
class Rule:
    """A fact, or one fact as a share of another, that is to be no more (or no less) than a threshold.

    A document without any of `of` passes: there is nothing of which it could be a share. Facts are in kernels/facts.py.
    """

    fact: str
    of: str | None = None
    at_least: bool = False

    @property
    def is_share(self) -> bool:
        """Whether it is a part of a whole, so at most 1."""
        return self.of in ("chars", "words", "lines", "paragraphs") and self.fact not in (
            "line_feeds",
            "line_chars",
        )


# In this order: the first that a document fails is its reason.
RULES: Final[Mapping[str, Rule]] = {
    "min_words": Rule("told_words", at_least=True),
    "max_words": Rule("told_words"),
    "min_mean_word_chars": Rule("spaced_word_chars", "spaced_words", at_least=True),
    "max_mean_word_chars": Rule("spaced_word_chars", "spaced_words"),
    "min_lettered_words": Rule("lettered_words", "words", at_least=True),
    "min_letters": Rule("letters", "chars", at_least=True),
    "min_letters_and_digits": Rule("letters_and_digits", "chars", at_least=True),
    "max_hashes_per_word": Rule("hashes", "words"),
    "max_ellipses_per_word": Rule("ellipses", "words"),
    "max_bullet_lines": Rule("bullet_lines", "lines"),
    "max_ellipsis_lines": Rule("ellipsis_lines", "lines"),
    "min_terminal_lines": Rule("terminal_lines", "lines", at_least=True),
    "max_short_lines": Rule("short_lines", "lines"),
    "max_line_feeds_per_word": Rule("line_feeds", "words"),
    "max_longest_line": Rule("longest_line"),
    "max_mean_line": Rule("line_chars", "lines"),
    "max_repeated_lines": Rule("repeated_lines", "lines"),
    "max_repeated_line_chars": Rule("repeated_line_chars", "chars"),
    "max_repeated_paragraphs": Rule("repeated_paragraphs", "paragraphs"),
    "max_repeated_paragraph_chars": Rule("repeated_paragraph_chars", "chars"),
    **{f"max_top_{n}gram_chars": Rule(f"top_{n}gram_chars", "chars") for n in (2, 3, 4)},
    **{f"max_repeated_{n}gram_chars": Rule(f"repeated_{n}gram_chars", "chars") for n in range(5, 11)},
}
PRESETS: Final[Mapping[str, Mapping[str, float]]] = {
    "gopher": {
        "min_words": 50,
        "max_words": 100_000,
        "min_mean_word_chars": 3,
        "max_mean_word_chars": 10,
        "min_lettered_words": 0.8,
        "max_hashes_per_word": 0.1,
        "max_ellipses_per_word": 0.1,
        "max_bullet_lines": 0.9,
        "max_ellipsis_lines": 0.3,
        "max_repeated_lines": 0.3,
        "max_repeated_line_chars": 0.2,
        "max_repeated_paragraphs": 0.3,
        "max_repeated_paragraph_chars": 0.2,
        "max_top_2gram_chars": 0.2,
        "max_top_3gram_chars": 0.18,
        "max_top_4gram_chars": 0.16,
        "max_repeated_5gram_chars": 0.15,
        "max_repeated_6gram_chars": 0.14,
        "max_repeated_7gram_chars": 0.13,
        "max_repeated_8gram_chars": 0.12,
        "max_repeated_9gram_chars": 0.11,
        "max_repeated_10gram_chars": 0.10,
    },
    "fineweb": {
        "min_terminal_lines": 0.12,
        "max_short_lines": 0.67,
        "max_line_feeds_per_word": 0.3,
        "max_repeated_line_chars": 0.01,
    },
    "code": {
        "min_letters_and_digits": 0.25,
        "max_longest_line": 1_000,
        "max_mean_line": 100,
    },
}


class QualityFilter:
    """Rejects documents that fail a rule. `thresholds`: by the name of the rule."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self._rules = [(RULES[name], thresholds[name]) for name in RULES if name in thresholds]
        self.reasons: Final = tuple(f"{QUALITY}:{name}" for name in RULES if name in thresholds)
        self._runs = any("gram_" in rule.fact for rule, _ in self._rules)

    def judge(self, texts: Any) -> NDArray[np.uint8]:
        """0 for each of `texts` that is kept, else one more than the position of the first rule that it fails."""
        from headrace.dataeng.lineage import string_buffers
        from headrace.kernels.facts import FACTS, facts

        offsets, data = string_buffers(texts)
        counted = facts(np.frombuffer(data, np.uint8), offsets, runs=self._runs)
        columns = {name: counted[:, number] for number, name in enumerate(FACTS)}
        columns["letters_and_digits"] = columns["letters"] + columns["digits"]
        verdict = np.zeros(len(texts), np.uint8)
        for number, (rule, threshold) in reversed(list(enumerate(self._rules, 1))):
            verdict[fails(columns, rule, threshold)] = number
        return verdict


def fails(columns: Mapping[str, NDArray[np.int64]], rule: Rule, threshold: float) -> NDArray[np.bool_]:
    """Which documents do not keep to a rule."""
    found = columns[rule.fact].astype(np.float64)
    if rule.of is not None:
        whole = columns[rule.of]
        found = np.divide(found, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    # nan is neither less nor more
    return np.asarray(found < threshold if rule.at_least else found > threshold)


def thresholds_of(names: Iterable[str]) -> dict[str, float]:
    """The rules of presets and of JSON files, in the order given: a later one has the last word on a rule.

    Raises:
        UsageError: no such preset, no such rule, or no such threshold.
        InputError: a file that cannot be read.
    """
    found: dict[str, float] = {}
    for name in names:
        found |= PRESETS[name] if name in PRESETS else _read(name)
    return checked(found, "--quality")


def _read(name: str) -> dict[str, Any]:
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--quality {name}: neither a preset ({', '.join(PRESETS)}) nor a file; a file holds a JSON object of rules and "
            "their thresholds"
        )
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"--quality {name}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f'--quality {name}: expected an object of rules, such as {{"min_words": 50}}')
    return checked(value, f"--quality {name}")


def checked(thresholds: Mapping[str, Any], where: str) -> dict[str, float]:
    """The same, sorted by name. Raises UsageError for an unknown rule or a threshold that cannot be one."""
    for name, value in thresholds.items():
        if name not in RULES:
            near = difflib.get_close_matches(name, RULES, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the rules are {', '.join(RULES)}"
            raise UsageError(f"{where}: no rule {name!r}; {hint}")
        most = 1.0 if RULES[name].is_share else math.inf
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            expected = "a share from 0 to 1" if most == 1 else "a number of 0 or more"
            raise UsageError(f"{where}: {name} is {value!r}; expected {expected}")
    return dict(sorted(thresholds.items()))
