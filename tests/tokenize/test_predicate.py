"""The small language of `headrace filter --where`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.lineage import SCHEMA
from headrace.errors import UsageError
from headrace.tokenize.predicate import parse

ROWS: list[dict[str, Any]] = [
    {"document_id": "a", "source": "web/x.parquet", "row_group": 0, "row": 0, "tokens": 5},
    {"document_id": None, "source": "web/y/z.jsonl", "row_group": None, "row": 7, "tokens": 50},
    {"document_id": "it's", "source": "books\n?*", "row_group": 2, "row": 3, "tokens": 500},
]
TABLE = pa.Table.from_pylist(
    [
        {"byte_offset": None, "text_bytes": 1, "text_hash": bytes([n] * 16), **row}
        for n, row in enumerate(ROWS)
    ],
    SCHEMA,
)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("tokens > 5", [1, 2]),
        ("tokens>=5 and tokens<=50", [0, 1]),
        ("tokens = 5 or tokens = 500 and row = 0", [0]),
        ("(tokens = 5 or tokens = 500) and row != 0", [2]),
        ("NOT tokens < 50", [1, 2]),
        ("not not tokens = 50", [1]),
        ("row in (7, 3)", [1, 2]),
        ("row > -1", [0, 1, 2]),
        ("source glob 'web/*'", [0, 1]),
        ("source glob '*.parquet'", [0]),
        ("source glob 'web/?.*'", [0]),
        ("source glob 'books*'", [2]),
        ("source glob 'web'", []),
        ("source = 'web/x.parquet' or document_id = 'it''s'", [0, 2]),
        ("source in ('web/x.parquet', 'no')", [0]),
        ("text_hash = '01010101010101010101010101010101'", [1]),
        ("text_hash in ('0202020202020202020202020202020A', '02020202020202020202020202020202')", [2]),
        # Nulls, as in SQL.
        ("document_id != 'a'", [2]),
        ("not document_id = 'a'", [2]),
        ("not document_id in ('a')", [2]),
        ("document_id is null", [1]),
        ("document_id is not null", [0, 2]),
        ("row_group = 0 or tokens = 50", [0, 1]),
        ("not (row_group = 0 and tokens = 5)", [1, 2]),
        ("not document_id glob 'a*'", [2]),
    ],
)
def test_a_predicate_selects_what_it_says(text: str, selected: list[int]) -> None:
    predicate = parse(text)
    found = predicate.selects(TABLE.select(predicate.columns))
    assert found.null_count == 0
    assert [number for number, one in enumerate(found.to_pylist()) if one] == selected


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        ("", 1, "expected a column"),
        ("tokens", 7, "expected one of = != < <= > >= in is behind tokens"),
        ("token > 5", 1, r"expected a column \(document_id, source"),
        ("tokens > 'x'", 10, "expected an integer of 64 bits"),
        ("tokens > 5x", 10, "expected a column, a keyword, an integer"),
        ("tokens > 1.5", 10, "expected a column, a keyword, an integer"),
        ("tokens > 9223372036854775808", 10, "expected an integer of 64 bits"),
        ("tokens > " + "9" * 1000, 10, "expected an integer of 64 bits"),
        ("tokens > ٣", 10, "expected a column, a keyword, an integer"),
        ("row_group = 2147483648", 13, "expected an integer of 32 bits"),
        ("source > 'a'", 8, "expected one of = != in is glob behind source"),
        ("source = 5", 10, "expected a 'string'"),
        ("source = 'a", 10, "expected a column, a keyword"),
        ('source = "a"', 10, "expected a column, a keyword"),
        ("text_hash = 'ab'", 13, "expected 32 hexadecimal digits"),
        ("text_hash glob 'ab*'", 11, "expected one of = != in is behind text_hash"),
        ("(tokens > 5", 12, r"expected `\)`"),
        ("tokens > 5) or row = 1", 11, "expected `and`, `or` or the end"),
        ("tokens > 5 row = 1", 12, "expected `and`, `or` or the end"),
        ("row in ()", 9, "expected an integer"),
        ("row in (1,)", 11, "expected an integer"),
        ("row is 5", 8, "expected `null`"),
        ("__import__('os')", 1, "expected a column"),
        ("source glob '" + "ab*" * 300_000 + "'", 13, "expected a pattern that is shorter"),
        ("not " * 200 + "row = 1", 401, "nested deeper than 100"),
        ("(" * 200 + "row = 1" + ")" * 200, 101, "nested deeper than 100"),
    ],
)
def test_what_is_no_predicate_is_refused_with_its_place(text: str, at: int, problem: str) -> None:
    with pytest.raises(UsageError, match=rf"--where, character {at}: {problem}") as refused:
        parse(text)
    # The caret stands below the character.
    *_, line, caret = str(refused.value).split("\n")
    shown = (text + " ")[at - 1]
    assert (line + " ")[len(caret) - 1] == (shown if not shown.isspace() else " ")


def test_a_predicate_that_is_too_long_or_is_not_text_is_refused() -> None:
    with pytest.raises(UsageError, match="--documents-from"):
        parse("row = 1 " * (1 << 18))
    with pytest.raises(UsageError, match="not UTF-8"):
        parse("source = '\udcff'")


_LEAF = st.sampled_from(
    [
        ("tokens > {n}", lambda row, n: row["tokens"] > n),
        ("row_group = {n}", lambda row, n: None if row["row_group"] is None else row["row_group"] == n),
        ("row in ({n}, 7)", lambda row, n: row["row"] in (n, 7)),
        ("document_id is null", lambda row, _: row["document_id"] is None),
        ("document_id != 'a'", lambda row, _: None if row["document_id"] is None else row["document_id"] != "a"),
    ]
)  # fmt: skip
_TREE = st.recursive(
    st.tuples(_LEAF, st.integers(0, 60)),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    ),
    max_leaves=8,
)


def _text(tree: Any) -> str:
    if tree[0] == "not":
        return f"not ({_text(tree[1])})"
    if tree[0] in ("and", "or"):
        return f"({_text(tree[1])}) {tree[0]} ({_text(tree[2])})"
    (text, _), number = tree
    return str(text.format(n=number))


def _value(tree: Any, row: dict[str, Any]) -> bool | None:
    """SQL's logic of three values, slowly."""
    if tree[0] == "not":
        inner = _value(tree[1], row)
        return None if inner is None else not inner
    if tree[0] in ("and", "or"):
        both, decides = [_value(tree[1], row), _value(tree[2], row)], tree[0] == "or"
        return decides if decides in both else None if None in both else not decides
    (_, test), number = tree
    found: bool | None = test(row, number)
    return found


@given(_TREE)
def test_any_predicate_selects_the_rows_for_which_its_slow_reading_is_true(tree: Any) -> None:
    predicate = parse(_text(tree))
    expected = [_value(tree, row) is True for row in ROWS]
    assert predicate.selects(TABLE.select(predicate.columns)).to_pylist() == expected
