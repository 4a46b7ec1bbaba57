from __future__ import annotations

import importlib.util
import json
import sys
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from headrace.tokenize import backends
from headrace.tokenize.backends import (
    LONGEST_RUN,
    Disagreement,
    Encoded,
    Fast,
    Gate,
    Reference,
    Refused,
    added_tokens,
    differences,
    fast_backend,
    has_long_run,
    load_fast,
)
from headrace.tokenize.tokenizers import load
from tests.tokenize.jobs import ODDITIES

needs_fastokens = pytest.mark.skipif(
    importlib.util.find_spec("fastokens") is None,
    reason="fastokens is not installed: pip install 'headrace[fast]'",
)


def lists(encoded: Encoded) -> list[list[int]]:
    bounds = encoded.offsets.tolist()
    return [encoded.ids[a:b].tolist() for a, b in pairwise(bounds)]


def rows(texts: Sequence[str], first: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(first, first + len(texts))


def encode(gate: Gate, texts: list[str], first_row: int = 0, *, first: bool = False) -> Encoded:
    return gate.encode(texts, rows(texts, first_row), memoryview("".join(texts).encode()), first=first)


@pytest.fixture(scope="module")
def reference(tokenizer_file: Path) -> Reference:
    return Reference(load(tokenizer_file.read_bytes(), "t"))


@pytest.fixture(scope="module")
def fast(tokenizer_file: Path, reference: Reference) -> Fast:
    found = fast_backend(tokenizer_file.read_bytes(), reference)
    assert isinstance(found, Fast), found
    return found


class Wrong(Fast):
    """A backend that gives another id wherever a text contains `mark`."""

    def __init__(self, reference: Reference, mark: str) -> None:
        self._reference, self._mark = reference, mark

    def encode(self, texts: Sequence[str]) -> Encoded:
        found = self._reference.encode(texts)
        ids = found.ids.copy()
        for number, text in enumerate(texts):
            if self._mark in text:
                ids[found.offsets[number]] ^= 1
        return found._replace(ids=ids)


class Panicking:
    """A library that raises what a panic of Rust code is to Python: a BaseException, by this name."""

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool) -> list[object]:
        del add_special_tokens
        if any("panic" in text for text in texts):
            raise type("PanicException", (BaseException,), {})("retry-limit-in-match over")
        return [type("Encoding", (), {"ids": [len(text)]})() for text in texts]

    def encode_batch_flat(self, *_: object) -> tuple[bytes, bytes]:
        raise type("PanicException", (BaseException,), {})("index out of bounds")


def test_the_reference_gives_the_ids_of_the_library(tokenizer_file: Path, reference: Reference) -> None:
    texts = [text for text in ODDITIES if text]
    library = load(tokenizer_file.read_bytes(), "t")
    assert lists(reference.encode(texts)) == [library.encode(t, add_special_tokens=False).ids for t in texts]


def test_a_text_over_which_the_definition_panics_fails_alone() -> None:
    found = Reference(Panicking()).encode(["ab", "panic", "abc"])  # type: ignore[arg-type]
    assert (lists(found), found.failed) == ([[2], [], [3]], (1,))


def test_an_interrupt_is_not_taken_for_a_panic() -> None:
    class Interrupted:
        def encode_batch_fast(self, *_: object, **__: object) -> list[object]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Reference(Interrupted()).encode(["a"])  # type: ignore[arg-type]


@needs_fastokens
@given(texts=st.lists(st.text(max_size=60), max_size=20))
@settings(deadline=None)
def test_the_fast_backend_gives_the_ids_of_the_reference(
    reference: Reference, fast: Fast, texts: list[str]
) -> None:
    assert lists(fast.encode(texts)) == lists(reference.encode(texts))


@needs_fastokens
@given(token=st.sampled_from(["<|endoftext|>", "<s>"]), around=st.text(max_size=10))
@settings(deadline=None)
def test_text_that_spells_a_special_token_stays_text_in_both(
    reference: Reference, fast: Fast, token: str, around: str
) -> None:
    text = around + token + around
    token_id = reference.tokenizer.token_to_id(token)
    for backend in (reference, fast):
        (ids,) = lists(backend.encode([text]))
        assert token_id not in ids
        assert reference.tokenizer.decode(ids, skip_special_tokens=False) == text


@needs_fastokens
def test_a_tokenizer_that_is_not_supported_is_refused_with_the_reason() -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    data = tokenizer.to_str().encode()
    refused = fast_backend(data, Reference(load(data, "t")))
    assert isinstance(refused, Refused)
    assert "fastokens does not support this tokenizer" in refused.reason


@needs_fastokens
def test_a_tokenizer_for_which_the_backend_gives_other_ids_is_refused_with_an_example(
    tokenizer_file: Path,
) -> None:
    r"""A regular expression of which \s means U+180E to one library and not to the other."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}{1,7}|\s+(?!\S)|\s+|[^\s\p{L}]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    data = tokenizer.to_str().encode()
    found = fast_backend(data, Reference(load(data, "t")))
    assert isinstance(found, Refused)
    assert "gives other ids for" in found.reason


@needs_fastokens
def test_a_vocabulary_with_holes_is_supported(tokenizer_file: Path) -> None:
    value = json.loads(tokenizer_file.read_text())
    token, number = max(value["model"]["vocab"].items(), key=lambda item: item[1])
    value["model"]["vocab"][token] = number + 3
    data = json.dumps(value).encode()
    reference = Reference(load(data, "t"))
    found = fast_backend(data, reference)
    assert isinstance(found, Fast), found
    texts = [text for text in ODDITIES if text]
    assert lists(found.encode(texts)) == lists(reference.encode(texts))


@needs_fastokens
def test_a_vocabulary_of_two_tokens_with_a_huge_id_is_not_filled_up(tokenizer_file: Path) -> None:
    value = json.loads(tokenizer_file.read_text())
    value["model"] |= {"vocab": {"a": 0, "b": 2**32 - 2}, "merges": []}
    tracemalloc.start()
    try:
        found = load_fast(json.dumps(value).encode())
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert isinstance(found, Refused)


def test_without_the_package_it_is_refused_and_says_what_to_install(
    tokenizer_file: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    refused = fast_backend(tokenizer_file.read_bytes(), reference)
    assert isinstance(refused, Refused)
    assert "pip install 'headrace[fast]'" in refused.reason


def test_a_panic_of_the_fast_backend_is_a_disagreement() -> None:
    with pytest.raises(Disagreement, match="index out of bounds"):
        Fast(Panicking()).encode(["a"])


def test_added_tokens_are_those_of_the_file(reference: Reference) -> None:
    assert added_tokens(reference) == ["<|endoftext|>", "<s>"]


def test_the_first_document_of_a_file_is_always_checked(reference: Reference) -> None:
    gate = Gate(reference, Wrong(reference, "x"), "f", full=False)
    with pytest.raises(Disagreement, match="row 7"):
        encode(gate, ["x", "y"], 7, first=True)


@pytest.mark.parametrize(
    ("num_characters", "looked_at"), [(5_000, 64), (100_000, 390), (600_000, 2048), (900_000, 2048)]
)
def test_a_small_file_is_not_encoded_by_the_definition_for_the_most_part(
    reference: Reference, num_characters: int, looked_at: int
) -> None:
    gate = Gate(reference, Wrong(reference, "x"), "f", full=False)
    text = "ab " * (num_characters // 3)
    encode(gate, [f"{text[:looked_at]}x{text[looked_at:]}"], first=True)
    with pytest.raises(Disagreement):
        encode(gate, [f"{text[: looked_at - 1]}x{text[looked_at:]}"], first=True)


def test_the_sample_is_one_in_about_a_thousand_and_the_same_each_time(reference: Reference) -> None:
    caught = []
    for row in range(20_000):
        try:
            encode(Gate(reference, Wrong(reference, "x"), "fingerprint", full=False), ["x"], row)
        except Disagreement:
            caught.append(row)
    assert 5 <= len(caught) <= 45
    with pytest.raises(Disagreement, match=f"row {caught[0]:,}"):
        encode(Gate(reference, Wrong(reference, "x"), "fingerprint", full=False), ["x"] * 20_000)
    missed = 0
    for row in caught:
        try:
            encode(Gate(reference, Wrong(reference, "x"), "another file", full=False), ["x"], row)
            missed += 1
        except Disagreement:
            continue
    assert missed > len(caught) // 2


def test_a_full_check_sees_every_difference(reference: Reference) -> None:
    texts = ["a"] * 3000 + ["x"]
    assert len(lists(encode(Gate(reference, Wrong(reference, "x"), "f", full=False), texts[:100]))) == 100
    with pytest.raises(Disagreement, match="row 3,000"):
        encode(Gate(reference, Wrong(reference, "x"), "f", full=True), texts)


@given(texts=st.lists(st.sampled_from(["", "a", "x", "ax", "xa"]), max_size=8))
def test_differences_are_the_texts_with_other_ids(reference: Reference, texts: list[str]) -> None:
    wrong = Wrong(reference, "x").encode(texts)
    assert differences(wrong, reference.encode(texts)) == [n for n, t in enumerate(texts) if "x" in t]
    assert differences(reference.encode(texts), reference.encode(texts)) == []


@pytest.mark.parametrize(
    ("text", "long"),
    [
        (" " * LONGEST_RUN, False),
        (" " * (LONGEST_RUN + 1), True),
        ("ab " * LONGEST_RUN, False),
        ("a" + "\n" * (LONGEST_RUN + 1) + "b", True),
        ("a b " + "é" * LONGEST_RUN, True),
        ("a" * (LONGEST_RUN // 2) + " " + "a" * LONGEST_RUN, False),
    ],
    ids=["border", "blanks", "words", "line ends", "letters at the end", "two runs"],
)
def test_long_runs_of_one_kind_are_found(text: str, long: bool) -> None:
    assert has_long_run([text], memoryview(text.encode())) == long


def test_a_text_with_a_long_run_goes_to_the_definition(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "LONGEST_RUN", 10)
    gate = Gate(reference, Wrong(reference, " "), "f", full=False)
    text = "a" + " " * 20
    assert lists(encode(gate, [text])) == lists(reference.encode([text]))
    assert lists(encode(gate, ["a b " * 20])) != lists(reference.encode(["a b " * 20]))
