from __future__ import annotations

from pathlib import Path

import pytest

from tests.tokenize.jobs import CommandLine, write_corpus, write_tokenizer


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.json")


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path) -> CommandLine:
    """Tokenizes the odd corpus."""
    return CommandLine(write_corpus(tmp_path_factory.mktemp("inputs") / "corpus"), tokenizer_file)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, command: CommandLine) -> Path:
    """The odd corpus tokenized by one worker, uninterrupted. Read only."""
    out = tmp_path_factory.mktemp("finished") / "dataset"
    command.run(out, "--workers", "1")
    return out
