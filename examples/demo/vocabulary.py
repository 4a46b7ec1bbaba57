"""A byte-level BPE trained on the corpus: small, exact, and the same on every run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 16_384
END_OF_TEXT = "<|endoftext|>"


def train(texts: Iterable[str], path: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),  # any byte has a token, so any text has ids
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    temporary = path.with_suffix(".tmp")
    tokenizer.save(str(temporary))
    temporary.rename(path)


def encode(path: Path, text: str) -> list[int]:
    """The ids of one document as a dataset holds them, the token that ends it included."""
    tokenizer = Tokenizer.from_file(str(path))
    end = tokenizer.token_to_id(END_OF_TEXT)
    assert end is not None  # it was trained with it
    return [*tokenizer.encode(text).ids, end]
