"""Whatever tokenizer file is given becomes a `tokenizer.json`: that is what encodes, what is hashed, and what is published."""

from __future__ import annotations

from headrace.errors import UsageError
from headrace.tokenize import rank_file, sentencepiece_model


def to_definition(data: bytes, name: str, *, recipe: tuple[bytes, str] | None = None) -> bytes:
    """The `tokenizer.json` of a tokenizer file: itself, or converted from tiktoken ranks or a SentencePiece BPE model.

    Args:
        data, name: the file, and what it was called: known rank files are recognised by their name.
        recipe: bytes and name of the JSON file that says what a rank file does not (see `rank_file`).

    Raises:
        InputError: a rank file, a model or a recipe that cannot be read.
        UsageError: one that cannot be converted exactly, or a recipe for a file that needs none.
    """
    if rank_file.looks_like_rank_file(data):
        known = rank_file.recipe_for(name, *(recipe or (None, "")))
        return rank_file.to_tokenizer_json(rank_file.parse_ranks(data, name), known, name)
    if recipe is not None:
        raise UsageError(
            f"{name}: not a tiktoken rank file, so --tokenizer-recipe has nothing to say; leave it out"
        )
    if sentencepiece_model.looks_like_model(data):
        return sentencepiece_model.to_tokenizer_json(data, name)
    return data
