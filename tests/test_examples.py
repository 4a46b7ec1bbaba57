"""The examples run as their first lines say, on a dataset that the command line made."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace
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


def test_the_loop_of_the_readme_runs_and_continues(dataset: Path) -> None:
    (loop,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    loop = loop.replace("s3://bucket/corpus", str(dataset)).replace("2048", "16").replace("=256", "=4")
    seen: list[tuple[int, ...]] = []

    class Enough(Exception):
        """Ends a loop that has no end."""

    def step(inputs: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
        assert labels.shape == inputs.shape == (4, 16)
        seen.append(tuple(inputs.ravel().tolist()))
        if len(seen) in (3, 6):
            raise Enough
        return 0.0

    names = {"headrace": headrace, "checkpoint": {}, "step": step, "rank": 0, "world_size": 1}
    for _ in range(2):
        with pytest.raises(Enough):
            exec(loop, names)
    # The third batch was not saved, so it comes again.
    assert seen[2] == seen[3]
    assert len(set(seen)) == 5
