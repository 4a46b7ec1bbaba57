from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from headrace.errors import InputError, UsageError
from headrace.manifests.canonical import sha256_hex
from headrace.tokenize.tokenizers import Encoder, identify, load
from tests.tokenize.jobs import EOS


def word_level(path: Path, *, pre: bool, special: bool) -> bytes:
    """A vocabulary in which "</s>" is an ordinary word, and perhaps a special token too."""
    tokenizer = Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "[UNK]": 2}, unk_token="[UNK]"))
    if pre:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special:
        tokenizer.add_special_tokens(["</s>", "[UNK]"])
    tokenizer.save(str(path))
    return path.read_bytes()


def test_the_ids_are_those_of_the_library_and_each_document_ends_once(tokenizer_file: Path) -> None:
    data = tokenizer_file.read_bytes()
    identity = identify(data, "t", bos="<s>")
    encoder = Encoder(load(data, "t"), identity, "uint16")
    texts = ["a token flows", "水車 \N{GRINNING FACE}", "\0"]
    tokens, lengths = encoder.encode(texts)
    plain = Tokenizer.from_file(str(tokenizer_file))
    expected = [[1, *plain.encode(text, add_special_tokens=False).ids, 0] for text in texts]
    assert lengths.tolist() == [len(ids) for ids in expected]
    assert tokens.tolist() == [token for ids in expected for token in ids]
    assert tokens.dtype == np.uint16


@given(text=st.text(max_size=20), token=st.sampled_from([EOS, "<s>"]))
def test_text_that_spells_a_special_token_stays_text(tokenizer_file: Path, text: str, token: str) -> None:
    data = tokenizer_file.read_bytes()
    tokenizer = load(data, "t")
    tokens, _ = Encoder(tokenizer, identify(data, "t", eos="none"), "uint16").encode([text + token + text])
    assert tokenizer.token_to_id(token) not in tokens.tolist()
    assert tokenizer.decode(tokens.tolist(), skip_special_tokens=False) == text + token + text


def test_a_post_processor_and_truncation_and_padding_in_the_file_change_nothing(
    tokenizer_file: Path, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"<s> $A {EOS}", special_tokens=[("<s>", 1), (EOS, 0)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(tmp_path / "t.json"))
    texts = ["a token flows down the channel to a mill wheel"]
    encoded = []
    for path in (tokenizer_file, tmp_path / "t.json"):
        data = path.read_bytes()
        tokens, _ = Encoder(load(data, "t"), identify(data, "t"), "uint16").encode(texts)
        encoded.append(tokens.tolist())
    assert encoded[0] == encoded[1]
    assert encoded[0].count(0) == 1


def test_a_text_of_which_nothing_is_made_has_no_length_and_no_frame(tmp_path: Path) -> None:
    data = word_level(tmp_path / "t.json", pre=True, special=False)
    identity = identify(data, "t", eos="none")
    tokens, lengths = Encoder(load(data, "t"), identity, "uint16").encode(["\u3000", "a a"])
    assert (tokens.tolist(), lengths.tolist()) == ([1, 1], [0, 2])


def test_auto_finds_the_known_end_and_the_choice_is_recorded(tokenizer_file: Path) -> None:
    data = tokenizer_file.read_bytes()
    identity = identify(data, "t")
    assert (identity.eos, identity.eos_id, identity.bos, identity.bos_id) == (EOS, 0, None, None)
    assert identity.sha256 == sha256_hex(data)
    assert (identity.vocab_size, identity.special_tokens) == (400, "as-text")
    assert identity.library.startswith("tokenizers 0.23")


def test_auto_without_a_known_end_asks(tmp_path: Path, tokenizer_file: Path) -> None:
    text = tokenizer_file.read_text().replace(EOS, "<|stop|>")
    with pytest.raises(UsageError, match="say which token ends a document with --eos TOKEN"):
        identify(text.encode(), "t")
    assert identify(text.encode(), "t", eos="<|stop|>").eos_id == 0
    assert identify(text.encode(), "t", eos="none").eos_id is None


def test_a_token_that_does_not_exist_is_refused(tokenizer_file: Path) -> None:
    with pytest.raises(UsageError, match="--bos '<bos>' is not in the vocabulary"):
        identify(tokenizer_file.read_bytes(), "t", bos="<bos>")


def test_the_vocabulary_counts_added_tokens_and_holes(tokenizer_file: Path, tmp_path: Path) -> None:
    value = json.loads(tokenizer_file.read_text())
    value["added_tokens"].append({**value["added_tokens"][0], "id": 70_000, "content": "<far>"})
    tokenizer = Tokenizer.from_str(json.dumps(value))
    size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    assert identify(json.dumps(value).encode(), "t").vocab_size == size > 400


def test_an_end_that_text_can_forge_is_refused(tmp_path: Path) -> None:
    data = word_level(tmp_path / "t.json", pre=False, special=True)
    with pytest.raises(UsageError, match="'</s>' inside a document would become the special token 0"):
        identify(data, "t")


def test_the_unknown_token_may_come_from_text(tmp_path: Path) -> None:
    data = word_level(tmp_path / "t.json", pre=True, special=True)
    assert identify(data, "t").eos == "</s>"


def test_an_added_token_that_is_not_special_is_part_of_the_vocabulary(tokenizer_file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.add_tokens([AddedToken("import", special=False)])
    data = tokenizer.to_str().encode()
    tokens, _ = Encoder(load(data, "t"), identify(data, "t", eos="none"), "uint16").encode(["import"])
    assert tokens.tolist() == [400]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\xfe", b'{"model": 1}', b"[" * 10_000])
def test_a_file_that_is_no_tokenizer_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InputError, match=r"my\.json: not a tokenizer\.json"):
        identify(data, "my.json")
