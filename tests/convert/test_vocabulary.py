from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from headrace.convert.vocabulary import of_size, of_tokenizer
from headrace.errors import UsageError
from headrace.manifests.canonical import sha256_hex
from tests.tokenize.jobs import EOS, write_tokenizer


def test_ids_of_an_unknown_tokenizer_are_spelt_as_numbers() -> None:
    vocabulary = of_size(300, bos="none", eos="299")
    tokenizer = Tokenizer.from_buffer(vocabulary.definition)
    assert tokenizer.decode([0, 17, 299]) == "0 17 299"
    assert tokenizer.encode("0 17 299").ids == [0, 17, 299]
    identity = vocabulary.identity
    assert identity.sha256 == sha256_hex(vocabulary.definition)
    assert (identity.vocab_size, identity.eos, identity.eos_id, identity.bos_id) == (300, "299", 299, None)


def test_only_vocabularies_of_one_size_are_one_tokenizer() -> None:
    assert of_size(300, bos="none", eos="none") == of_size(300, bos="none", eos="none")
    assert (
        of_size(300, bos="none", eos="none").identity.sha256
        != of_size(301, bos="none", eos="none").identity.sha256
    )


def test_what_documents_end_with_is_said_and_not_looked_for(tmp_path: Path) -> None:
    path = str(write_tokenizer(tmp_path / "tokenizer.json"))
    assert of_tokenizer(path, bos="none", eos=EOS).identity.eos == EOS
    assert of_tokenizer(path, bos="none", eos="none").identity.eos is None
    with pytest.raises(UsageError, match="is to be said"):
        of_tokenizer(path, bos="none", eos="auto")
    with pytest.raises(UsageError, match="--eos"):
        of_tokenizer(path, bos="none", eos="<|no such token|>")
