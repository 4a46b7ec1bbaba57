"""A small corpus and a dataset made from it by the command line, for tests of what comes after tokenization."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = "water wheel mill race sluice head tail gate stone grain flour ∑ naïve 水車 \n\t 0 42".split(" ")
END_OF_TEXT = "<|endoftext|>"


def make_texts(num_documents: int, seed: int = 0) -> list[str]:
    """Documents of 1 to 400 words, none of them blank."""
    rng = random.Random(seed)
    return ["mill " + " ".join(rng.choices(WORDS, k=rng.randrange(400))) for _ in range(num_documents)]


def make_tokenizer(texts: Sequence[str], path: Path, vocab_size: int = 400) -> Path:
    """A byte-level BPE: any text has ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    return path


def tokenize_corpus(directory: Path, *arguments: str, num_documents: int = 200) -> Path:
    """`headrace tokenize` of `make_texts(num_documents)` into several shards; returns the dataset's directory."""
    texts = make_texts(num_documents)
    source = directory / "source.parquet"
    ids = [f"document-{number}" for number in range(num_documents)]
    pq.write_table(pa.table({"id": ids, "text": texts}), source, row_group_size=50)
    tokenizer = make_tokenizer(texts, directory / "tokenizer.json")
    dataset = directory / "dataset"
    command = [
        sys.executable,
        "-m",
        "headrace",
        "tokenize",
        "--out",
        str(dataset),
        "--tokenizer",
        str(tokenizer),
    ]
    subprocess.run([*command, "--id-column", "id", *arguments, str(source)], check=True, timeout=120)
    return dataset
