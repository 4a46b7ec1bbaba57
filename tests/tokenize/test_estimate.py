from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.tokenize.estimate import _ranges
from tests.tokenize.jobs import some_texts, write_parquet, write_tokenizer


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("estimate")
    (root / "corpus").mkdir()
    for number in range(2):
        write_parquet(root / "corpus" / f"{number}.parquet", some_texts(number, 400))
    write_tokenizer(root / "tokenizer.json")
    return root


def headrace(inputs: Path, out: Path, *more: str) -> int:
    options = [
        "--out",
        str(out),
        "--tokenizer",
        str(inputs / "tokenizer.json"),
        "--workers",
        "1",
        "--max-rejects",
        "0.2",
    ]
    return main(
        ["tokenize", *options, "--shard-bytes", "8k", "--progress", "none", *more, str(inputs / "corpus")]
    )


def test_a_small_corpus_is_estimated_exactly_and_nothing_is_written(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert headrace(inputs, tmp_path / "out", "--estimate", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert not (tmp_path / "out").exists()
    assert list(scratch.iterdir()) == []
    assert told["exact"] is True
    assert headrace(inputs, tmp_path / "out", "--json") == 0
    done = json.loads(capsys.readouterr().out)
    for name in ("documents", "rejected", "tokens", "text_bytes"):
        assert told[name]["low"] == told[name]["high"] == pytest.approx(done["counts"][name])
    assert {reason: round(count) for reason, count in told["rejects"].items()} == done["rejects"]


def test_a_sample_is_the_same_each_time_and_near_the_truth(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.tokenize.estimate._SAMPLE_BYTES", 0)
    found = []
    for _ in range(2):
        assert headrace(inputs, tmp_path / "out", "--estimate", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["sampled_slices"], told["exact"]) == (12, False)
        found.append({name: told[name] for name in ("documents", "rejected", "tokens", "text_bytes")})
    assert found[0] == found[1]
    assert headrace(inputs, tmp_path / "out", "--json") == 0
    tokens = json.loads(capsys.readouterr().out)["counts"]["tokens"]
    assert 0.5 * tokens < found[0]["tokens"]["likely"] < 2 * tokens
    assert found[0]["tokens"]["low"] < found[0]["tokens"]["likely"] < found[0]["tokens"]["high"]


def test_the_table_says_what_to_expect(
    inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headrace(inputs, tmp_path / "out", "--estimate") == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")] == [
        "sample", "documents", "rejected", "text", "tokens", "stored", "units", "time", "disk",
    ]  # fmt: skip
    assert "with 1 workers here" in shown


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        weights = random.uniform(1, 4, 2000)
        tokens = weights * random.uniform(0.1, 0.5, 2000)
        some = random.choice(2000, 60, replace=False)
        values = np.repeat(tokens[some][:, None], 6, axis=1)
        share = weights[some].sum() / weights.sum()
        found = _ranges(weights[some], values, weights.sum(), share=share)["tokens"]
        held += found.low <= tokens.sum() <= found.high
    assert held >= 170
