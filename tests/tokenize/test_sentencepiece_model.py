from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import InputError, UsageError
from headrace.tokenize.sentencepiece_model import looks_like_model, to_tokenizer_json
from headrace.tokenize.tokenizers import identify, load
from headrace.tokenize.torture import torture_set
from tests.tokenize.jobs import some_texts

sentencepiece = pytest.importorskip(
    "sentencepiece", reason="sentencepiece is not installed; the extra `test` has it"
)


def train(**options: Any) -> bytes:
    """A small model; options as in Mistral's unless others are given."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text for text in some_texts(1, 200) if text and text.strip()]),
        model_writer=model,
        minloglevel=2,
        **{
            "model_type": "bpe",
            "vocab_size": 420,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "allow_whitespace_only_pieces": True,
            "user_defined_symbols": ["<sep>"],
            **options,
        },
    )
    return model.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return train()


def ids_of(model: bytes, texts: list[str]) -> tuple[list[list[int]], list[list[int]]]:
    """(theirs, ours)."""
    tokenizer = load(to_tokenizer_json(model, "t"), "t")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model).encode(texts)
    return theirs, [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


@pytest.mark.parametrize("options", [{}, {"add_dummy_prefix": False}, {"user_defined_symbols": []}])
def test_ids_of_the_torture_set_are_those_of_sentencepiece(options: dict[str, Any]) -> None:
    texts = torture_set(["<s>", "</s>", "<unk>", "<0x0A>"])
    theirs, ours = ids_of(train(**options), texts)
    assert [ascii(t) for t, a, b in zip(texts, theirs, ours, strict=True) if a != b] == []


@given(texts=st.lists(st.text("ado wnthel\u2581 été<sep>\n", max_size=30), min_size=1, max_size=20))
@settings(deadline=None, max_examples=50)
def test_ids_of_repeating_letters_are_those_of_sentencepiece(model: bytes, texts: list[str]) -> None:
    theirs, ours = ids_of(model, texts)
    assert ours == theirs


def test_text_comes_back_from_its_ids(model: bytes) -> None:
    tokenizer = load(to_tokenizer_json(model, "t"), "t")
    text = "a token  flows \n\U0001f600 水車"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_the_converted_model_has_the_ends_of_the_original(model: bytes) -> None:
    identity = identify(to_tokenizer_json(model, "t"), "t", bos="<s>")
    assert (identity.bos_id, identity.eos, identity.eos_id, identity.vocab_size) == (1, "</s>", 2, 420)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"model_type": "unigram", "vocab_size": 320},
            "a SentencePiece Unigram model, which tokenizers cannot follow",
        ),
        ({"model_type": "char", "vocab_size": 300}, "a SentencePiece character model; only BPE"),
        ({"normalization_rule_name": "nmt_nfkc"}, "its normalizer rewrites characters"),
        ({"remove_extra_whitespaces": True}, "its normalizer removes repeated blanks"),
        ({"byte_fallback": False, "vocab_size": 200}, "it has no pieces for single bytes"),
        ({"treat_whitespace_as_suffix": True}, "it does not write a blank as U\\+2581 before the word"),
    ],
)
def test_a_model_that_cannot_be_followed_exactly_is_refused_with_the_reason(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UsageError, match=rf"m\.model: {reason}"):
        to_tokenizer_json(train(**options), "m.model")


@given(cut=st.integers(0, 5_000))
@settings(deadline=None)
def test_a_truncated_model_is_refused_by_name(model: bytes, cut: int) -> None:
    """At a border of fields what is left may be a model without its settings: refused too, as of no known type."""
    with pytest.raises((InputError, UsageError), match=r"m\.model: "):
        to_tokenizer_json(model[: min(cut, len(model) - 300)], "m.model")


def test_a_model_is_told_from_other_files(model: bytes) -> None:
    assert looks_like_model(model)
    assert not looks_like_model(b'{"model": {}}')
    assert not looks_like_model(b"YQ== 0\n")
    assert not looks_like_model(b"")
