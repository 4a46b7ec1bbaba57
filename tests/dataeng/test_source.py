import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headrace.dataeng.source import PlanSource, TokenizerKey
from headrace.errors import UsageError
from tests.datasets import write_dataset


def test_an_opened_source_is_named_after_its_directory_and_keeps_an_absolute_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path / "code", [[[1, 2, 3]]])
    monkeypatch.chdir(tmp_path)
    source = PlanSource.open("code/")
    assert source.name == "code"
    assert Path(source.uri) == tmp_path / "code"
    assert source.tokens.tolist() == [3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": -1}, "weight -1"),
        ({"weight": float("nan")}, "weight nan"),
        ({"weight": float("inf")}, "weight inf"),
        ({"weight": True}, "weight True"),
        ({"content_hash": "xyz"}, "64 hexadecimal"),
        ({"tokens": np.array([-1], np.int64)}, "counts >= 0"),
        ({"tokens": np.array([1.5])}, "int64"),
    ],
)
def test_what_is_no_source_is_refused(change: dict[str, object], message: str) -> None:
    good = PlanSource(
        name="a",
        content_hash="ab" * 32,
        tokens=np.array([5], np.int64),
        tokenizer=TokenizerKey(sha256="cd" * 32, vocab_size=9),
    )
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(good, **change)  # type: ignore[arg-type]
