from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from headrace.errors import UsageError
from headrace.tokenize.backends import Fast, Reference, added_tokens, differences, fast_backend
from headrace.tokenize.definition import to_definition
from headrace.tokenize.rank_file import KNOWN
from headrace.tokenize.tokenizers import load
from headrace.tokenize.torture import torture_set
from tests.tokenize.test_rank_file import rank_bytes, some_ranks
from tests.vocabularies import VOCABULARIES

# Real vocabularies are large and not ours to ship: `make vocabularies` fetches them. Others (NAME.tiktoken, *.model*, *.json)
# can be put beside them.
DIRECTORY = Path(os.environ.get("HEADRACE_VOCABULARIES", "/nonexistent"))
NAMES = sorted({each.name for each in VOCABULARIES} | {path.name for path in DIRECTORY.glob("[!.]*")})


def test_a_tokenizer_json_is_itself(tokenizer_file: Path) -> None:
    data = tokenizer_file.read_bytes()
    assert to_definition(data, "t.json") == data


def test_a_rank_file_becomes_a_tokenizer_json_by_its_name_or_a_recipe() -> None:
    data = rank_bytes(some_ranks())
    recipe = b'{"pattern": "\\\\s+|\\\\S+", "special_tokens": {"<end>": 900}}'
    assert load(to_definition(data, "mine", recipe=(recipe, "r.json")), "t").token_to_id("<end>") == 900
    assert load(to_definition(data, "x/cl100k_base.tiktoken"), "t").token_to_id("<|endoftext|>") == 100_257


def test_a_recipe_for_a_file_that_needs_none_is_refused(tokenizer_file: Path) -> None:
    with pytest.raises(UsageError, match="--tokenizer-recipe has nothing to say"):
        to_definition(tokenizer_file.read_bytes(), "t.json", recipe=(b"{}", "r.json"))


def origin_ids(path: Path, data: bytes, texts: list[str]) -> list[list[int]]:
    """The ids of the library that the file was made for."""
    if path.suffix == ".tiktoken":
        tiktoken: Any = pytest.importorskip("tiktoken")
        from tiktoken.load import load_tiktoken_bpe

        recipe = KNOWN[path.stem]
        encoding = tiktoken.Encoding(
            path.stem,
            pat_str=recipe.pattern,
            mergeable_ranks=load_tiktoken_bpe(str(path)),
            special_tokens=dict(recipe.special_tokens),
        )
        form: Any = recipe.normalizer
        prepared = [unicodedata.normalize(form, text) for text in texts] if form else texts
        return [encoding.encode_ordinary(text) for text in prepared]
    if ".model" in path.name:
        sentencepiece: Any = pytest.importorskip("sentencepiece")
        ids: list[list[int]] = sentencepiece.SentencePieceProcessor(model_proto=data).encode(texts)
        return ids
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_a_real_vocabulary_are_those_of_its_own_library_and_of_the_fast_backend(name: str) -> None:
    path = DIRECTORY / name
    if not path.is_file():
        pytest.skip(f"HEADRACE_VOCABULARIES names no directory with {name}: `make vocabularies` fetches it")
    data = path.read_bytes()
    definition = to_definition(data, path.name)
    reference = Reference(load(definition, path.name))
    # Which form a character normalizes to is known to a library from the Unicode version that has it on.
    texts = [
        text
        for text in torture_set(added_tokens(reference))
        if all(unicodedata.category(character) != "Cn" for character in text)
    ]
    assert len(texts) > 500
    found = reference.encode(texts)
    bounds = found.offsets
    ours = [found.ids[bounds[n] : bounds[n + 1]].tolist() for n in range(len(texts))]
    assert ours == origin_ids(path, data, texts)
    fast = fast_backend(definition, reference)
    if isinstance(fast, Fast):
        assert differences(fast.encode(texts), found) == []
    else:
        assert "does not support" in fast.reason or "not installed" in fast.reason
