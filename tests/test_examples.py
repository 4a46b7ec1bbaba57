"""The examples run as their first lines say, on a dataset that the command line made."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus import tokenize_corpus

ROOT = Path(__file__).parents[1]
PLAIN = ROOT / "examples" / "plain_pytorch.py"


def run_plain(*arguments: str | Path) -> list[tuple[str, str]]:
    """(samples, loss) of each step printed."""
    done = subprocess.run(
        [sys.executable, PLAIN, *arguments], capture_output=True, text=True, check=True, timeout=120, cwd=ROOT
    )
    return re.findall(r"samples (\d+-\d+)  loss (\d+\.\d+)", done.stdout)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenize_corpus(tmp_path_factory.mktemp("plain"))


def test_the_plain_loop_stopped_and_started_again_is_one_run(dataset: Path, tmp_path: Path) -> None:
    whole = run_plain(dataset, tmp_path / "whole.pt", "8")
    first = run_plain(dataset, tmp_path / "parts.pt", "3")
    rest = run_plain(dataset, tmp_path / "parts.pt", "5")
    assert len(first) == 3
    assert first + rest == whole


def test_the_plain_loop_is_under_ten_lines() -> None:
    (loop,) = (node for node in ast.walk(ast.parse(PLAIN.read_text())) if isinstance(node, ast.For))
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno + 1 < 10
