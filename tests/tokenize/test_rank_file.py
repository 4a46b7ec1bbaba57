from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from headrace.errors import InputError, UsageError
from headrace.tokenize.rank_file import (
    KNOWN,
    Recipe,
    looks_like_rank_file,
    parse_ranks,
    recipe_for,
    to_tokenizer_json,
)
from headrace.tokenize.tokenizers import load
from headrace.tokenize.torture import torture_set

END = "<|endoftext|>"


def some_ranks() -> dict[bytes, int]:
    """All bytes, and tokens of few letters, so that many can be cut in several ways."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [
        b"ab",
        b"ba",
        b"aba",
        b"bab",
        b"abab",
        b"aa",
        b"aaa",
        b"aaaa",
        b" a",
        b" ab",
        b"  ",
        b"    ",
        b"\n\n",
    ]
    tokens += [
        "é".encode(),
        b"he",
        b"ll",
        b"hell",
        b"lo",
        b"hello",
        b" hello",
        b"--",
        b"---",
        b"-=",
        b"=-",
        b"-=-",
    ]
    return {token: rank for rank, token in enumerate(tokens)}


def rank_bytes(ranks: dict[bytes, int]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


def special(ranks: dict[bytes, int]) -> dict[str, int]:
    return {END: len(ranks) + 5}


def origin(ranks: dict[bytes, int], recipe: Recipe) -> Any:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed; the extra `test` has it")
    return tiktoken.Encoding(
        "small", pat_str=recipe.pattern, mergeable_ranks=ranks, special_tokens=dict(recipe.special_tokens)
    )


def converted(ranks: dict[bytes, int], recipe: Recipe) -> Tokenizer:
    return load(to_tokenizer_json(ranks, recipe, "small"), "small")


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_ids_of_the_torture_set_are_those_of_tiktoken(name: str) -> None:
    ranks = some_ranks()
    recipe = Recipe(pattern=KNOWN[name].pattern, special_tokens=special(ranks))
    theirs, ours = origin(ranks, recipe), converted(ranks, recipe)
    for text in torture_set([END]):
        assert ids(ours, text) == theirs.encode_ordinary(text), ascii(text)


@given(text=st.text("ab-= \nhelo", max_size=40))
@settings(deadline=None, max_examples=300)
def test_ids_of_repeating_letters_are_those_of_tiktoken(text: str) -> None:
    ranks = some_ranks()
    recipe = Recipe(pattern=KNOWN["cl100k_base"].pattern, special_tokens=special(ranks))
    assert ids(converted(ranks, recipe), text) == origin(ranks, recipe).encode_ordinary(text)


def test_special_tokens_have_the_ids_they_were_given_and_text_does_not_make_them() -> None:
    ranks = some_ranks()
    tokenizer = converted(ranks, Recipe(pattern=r"\s+|\S+", special_tokens=special(ranks)))
    assert tokenizer.token_to_id(END) == len(ranks) + 5
    assert len(ranks) + 5 not in ids(tokenizer, f"a{END}b")


@pytest.mark.parametrize("numbers", [[281], [285, 283], [290, 300]])
def test_ids_of_special_tokens_may_leave_gaps(numbers: list[int]) -> None:
    tokens = {f"<|{number}|>": number for number in numbers}
    tokenizer = converted(some_ranks(), Recipe(pattern=r"\w+|\W", special_tokens=tokens))
    assert {token: tokenizer.token_to_id(token) for token in tokens} == tokens
    assert tokenizer.decode(numbers, skip_special_tokens=False) == "".join(tokens)


def test_the_id_of_a_special_token_may_be_a_hole_among_the_ranks() -> None:
    """As in p50k_base."""
    ranks = {token: rank + (rank >= 270) for token, rank in some_ranks().items()}
    recipe = Recipe(pattern=KNOWN["p50k_base"].pattern, special_tokens={END: 270})
    tokenizer = converted(ranks, recipe)
    assert (tokenizer.token_to_id(END), tokenizer.get_vocab_size()) == (270, 282)
    for text in torture_set([END]):
        assert ids(tokenizer, text) == origin(ranks, recipe).encode_ordinary(text)


@given(text=st.text("<unsed 0123456789>", max_size=20))
@settings(deadline=None)
def test_no_text_spells_the_name_of_a_hole(text: str) -> None:
    ranks = {token: rank + 3 * (rank >= 260) for token, rank in some_ranks().items()}
    tokenizer = converted(ranks, Recipe(pattern=r"[\s\S]+", special_tokens={"<x>": 400}))
    for spelt in (text, "<unused 261>", "<unused 399>", "<unused\u0120261>"):
        assert set(ids(tokenizer, spelt)) <= set(ranks.values())


def test_a_rank_beyond_all_reason_is_refused() -> None:
    with pytest.raises(InputError, match="the rank 4,000,000,000 among 257 tokens"):
        parse_ranks(rank_bytes({bytes([b]): b for b in range(256)} | {b"ab": 4_000_000_000}), "t")


def test_text_comes_back_from_its_ids() -> None:
    ranks = some_ranks()
    tokenizer = converted(ranks, KNOWN["cl100k_base"])
    text = "hello  é \0 \U0001f600\n\nababab"
    assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text


def test_a_normalizer_of_the_recipe_is_applied() -> None:
    ranks = some_ranks()
    tokenizer = converted(ranks, Recipe(pattern=r"\s+|\S+", normalizer="NFC"))
    assert ids(tokenizer, "e\u0301") == ids(tokenizer, "é") == [ranks["é".encode()]]


def test_the_same_ranks_and_recipe_give_the_same_bytes_in_any_order_of_lines() -> None:
    data = rank_bytes(some_ranks())
    lines = data.splitlines(keepends=True)
    forwards, backwards = parse_ranks(data, "t"), parse_ranks(b"".join(reversed(lines)), "t")
    recipe = KNOWN["cl100k_base"]
    recipe = Recipe(pattern=recipe.pattern)
    assert to_tokenizer_json(forwards, recipe, "t") == to_tokenizer_json(backwards, recipe, "t")


def test_a_rank_file_is_told_from_other_files() -> None:
    assert looks_like_rank_file(rank_bytes(some_ranks()))
    assert not looks_like_rank_file(b'{"model": {}}')
    assert not looks_like_rank_file(b"")
    assert not looks_like_rank_file(b"\x0a\x0e\x0a\x05<unk>")


@pytest.mark.parametrize(
    "place", ["cl100k_base.tiktoken", "s3://bucket/x/cl100k_base.tiktoken", "cl100k_base"]
)
def test_a_known_file_is_recognised_by_its_name(place: str) -> None:
    assert recipe_for(place, None, "") == KNOWN["cl100k_base"]


def test_an_unknown_file_without_a_recipe_is_refused_and_says_what_to_give() -> None:
    with pytest.raises(UsageError, match=r"mine\.tiktoken: .* --tokenizer-recipe FILE\.json"):
        recipe_for("mine.tiktoken", None, "")


def test_a_recipe_is_read_from_json() -> None:
    value = {"pattern": r"\S+|\s+", "special_tokens": {END: 300}, "normalizer": "NFC"}
    found = recipe_for("mine", json.dumps(value).encode(), "r.json")
    assert (found.pattern, found.special_tokens, found.normalizer) == (r"\S+|\s+", {END: 300}, "NFC")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, 'has a text "pattern"'),
        ({"pattern": 3}, 'has a text "pattern"'),
        ({"pattern": "a", "merges": []}, r"found \['merges'\]"),
        ({"pattern": "a", "normalizer": "lower"}, "normalizer 'lower'"),
        ({"pattern": "a", "special_tokens": ["x"]}, "not an object of ids"),
        ({"pattern": "a", "special_tokens": {"x": True}}, "not an object of ids"),
        ({"pattern": r"\p{N}{1,3}+"}, r"'\{1,3\}\+' in the pattern is possessive"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused_by_name(value: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=rf"r\.json: .*{problem}"):
        recipe_for("mine", json.dumps(value).encode(), "r.json")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b"YQ== 0 1\n", "line 1: expected BASE64 RANK"),
        (b"YQ== 0\n!!! 1\n", "line 2: expected BASE64 RANK"),
        (b"YQ== x\n", "line 1: expected BASE64 RANK"),
        (b"YQ== 0\nYQ== 1\n", "line 2: a token or a rank that is empty or given twice"),
        (b"YQ== 0\nYg== 0\n", "line 2: a token or a rank that is empty or given twice"),
        (b"YQ== 0\n", "no rank for 255 single bytes"),
    ],
)
def test_a_line_that_is_no_rank_is_named(lines: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=rf"t\.tiktoken: {problem}"):
        parse_ranks(lines, "t.tiktoken")


def test_a_special_token_on_the_id_of_another_token_is_refused() -> None:
    with pytest.raises(InputError, match="the id 97 of '<x>' is the id of another token"):
        to_tokenizer_json(some_ranks(), Recipe(pattern="a", special_tokens={"<x>": 97}), "t")


def test_blank_lines_do_not_count(tmp_path: Path) -> None:
    assert parse_ranks(b"\n" + rank_bytes(some_ranks()) + b"\n\n", "t") == some_ranks()
