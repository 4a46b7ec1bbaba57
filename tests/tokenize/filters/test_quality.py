from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, InputError, UsageError
from headrace.kernels.facts import FACTS
from headrace.kernels.facts_reference import facts_reference
from headrace.tokenize.filters.config import FilterConfig
from headrace.tokenize.filters.prepare import prepare
from headrace.tokenize.filters.quality import PRESETS, RULES, QualityFilter, thresholds_of

TEXTS = st.lists(
    st.sampled_from(["a", "word", "two words", "- item", "end.", "\n", "\n\n", "...", "#", "7", "水"]),
    max_size=40,
).map(" ".join)


def reason(thresholds: dict[str, float], text: str) -> str | None:
    (found,) = QualityFilter(thresholds).judge(pa.array([text], pa.large_string())).tolist()
    return QualityFilter(thresholds).reasons[found - 1] if found else None


def reason_by_definition(thresholds: dict[str, float], text: str) -> str | None:
    known = facts_reference(text)
    known["letters_and_digits"] = known["letters"] + known["digits"]
    for name, rule in RULES.items():
        if name not in thresholds or (rule.of is not None and not known[rule.of]):
            continue
        value = known[rule.fact] / known[rule.of] if rule.of is not None else known[rule.fact]
        if value < thresholds[name] if rule.at_least else value > thresholds[name]:
            return f"quality:{name}"
    return None


@settings(deadline=None)  # the first call compiles
@given(
    texts=st.lists(TEXTS, max_size=6),
    thresholds=st.dictionaries(
        st.sampled_from(list(RULES)), st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1, 3, 20]), max_size=5
    ),
    cut=st.integers(0, 6),
)
def test_the_first_rule_that_a_document_fails_is_its_reason(
    texts: list[str], thresholds: dict[str, float], cut: int
) -> None:
    judge = QualityFilter(thresholds)
    verdict = judge.judge(pa.array(texts, pa.large_string()).slice(cut))
    assert [judge.reasons[found - 1] if found else None for found in verdict.tolist()] == [
        reason_by_definition(thresholds, text) for text in texts[cut:]
    ]


def test_every_rule_is_of_facts_that_there_are_and_every_preset_of_rules() -> None:
    known = {*FACTS, "letters_and_digits", None}
    assert all({rule.fact, rule.of} <= known for rule in RULES.values())
    for name in PRESETS:
        assert thresholds_of([name]) == dict(sorted(PRESETS[name].items()))


PROSE = (
    "A headrace is the channel that carries water to a mill wheel. From the weir it runs along the slope, so that the water "
    "arrives high above the tailrace, and falls there upon the buckets. Every miller kept his gates in order, for a flood "
    "could tear away in one night what had been built in a summer.\nOf the mills on this river two are left."
)


@pytest.mark.parametrize(
    ("preset", "text", "expected"),
    [
        ("gopher", PROSE, None),
        ("gopher", "Wasser" * 3 + " und Rad", "quality:min_words"),
        ("gopher", "\n".join(f"{PROSE[:40 + n]}..." for n in range(40)), "quality:max_ellipsis_lines"),
        ("gopher", "\n".join(f"- {PROSE[n : n + 40]}" for n in range(40)), "quality:max_bullet_lines"),
        ("gopher", f"{PROSE}\n" * 3, "quality:max_repeated_lines"),
        ("gopher", "1 2 3 4 5 6 7 8 9 10 11 12" * 9, "quality:min_mean_word_chars"),
        ("gopher", "1234 5678 word " * 40, "quality:min_lettered_words"),
        ("gopher", "buy now " * 40, "quality:max_top_2gram_chars"),
        ("gopher", "水車は水の力で回る車である。昔から粉を挽くために使われてきた。" * 1 + "".join(map(chr, range(0x4E00, 0x4E40))), None),
        ("fineweb", PROSE, None),
        ("fineweb", "\n".join(["Home", "About us", "Contact", "Log in"] * 9), "quality:min_terminal_lines"),
        ("code", "def f(x):\n    return x + 1\n", None),
        ("code", "x = [" + "1, " * 500 + "]", "quality:max_longest_line"),
        ("code", "{}[]();" * 9, "quality:min_letters_and_digits"),
    ],
)  # fmt: skip
def test_what_presets_say_of_typical_documents(preset: str, text: str, expected: str | None) -> None:
    assert reason(thresholds_of([preset]), text) == expected


def test_a_threshold_itself_is_kept() -> None:
    assert reason({"min_words": 3}, "one two three") is None
    assert reason({"min_words": 3}, "one two") == "quality:min_words"
    assert reason({"max_words": 3}, "one two three") is None
    assert reason({"max_words": 3}, "one two three four") == "quality:max_words"
    assert reason({"max_repeated_lines": 0.5}, "a\na") is None
    assert reason({"max_repeated_lines": 0.5}, "a\na\na") == "quality:max_repeated_lines"


def test_a_later_preset_or_file_has_the_last_word_on_a_rule(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"min_words": 5, "max_longest_line": 10000}')
    found = thresholds_of(["gopher", "fineweb", str(tmp_path / "rules.json")])
    assert found["max_repeated_line_chars"] == 0.01
    assert (found["min_words"], found["max_longest_line"], found["max_words"]) == (5, 10_000, 100_000)
    assert prepare(FilterConfig(quality=found)).described() == {"quality": found}


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (None, UsageError, r"neither a preset \(gopher, fineweb, code\) nor a file"),
        ("{", InputError, "not JSON"),
        ("[1]", InputError, "expected an object of rules"),
        ('{"max_repeated_line": 1}', UsageError, "no rule 'max_repeated_line'; did you mean 'max_repeated_lines'"),
        ('{"xyz": 1}', UsageError, "no rule 'xyz'; the rules are min_words, max_words"),
        ('{"max_repeated_lines": 1.5}', UsageError, "max_repeated_lines is 1.5; expected a share from 0 to 1"),
        ('{"min_words": -1}', UsageError, "min_words is -1; expected a number of 0 or more"),
        ('{"min_words": true}', UsageError, "min_words is True; expected a number"),
        ('{"min_words": "5"}', UsageError, "min_words is '5'; expected a number"),
        ('{"min_words": NaN}', UsageError, "min_words is nan; expected a number"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_used_are_said(
    tmp_path: Path, content: str | None, kind: type[HeadraceError], message: str
) -> None:
    if content is not None:
        (tmp_path / "rules.json").write_text(content)
    with pytest.raises(kind, match=message):
        thresholds_of([str(tmp_path / "rules.json")])


def test_rules_given_in_python_are_checked_too() -> None:
    with pytest.raises(UsageError, match="no rule 'min_word'"):
        prepare(FilterConfig(quality={"min_word": 3}))


def test_thresholds_are_told_as_json_says_them() -> None:
    """They are compared with those of a manifest, which has been through JSON."""
    for name in PRESETS:
        assert json.loads(json.dumps(thresholds_of([name]))) == thresholds_of([name])
