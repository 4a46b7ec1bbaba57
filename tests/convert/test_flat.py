from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.convert import arrays, flat
from headrace.convert.flat import Borders, Every, Separated
from headrace.convert.token_file import Documents
from headrace.dataeng.sources.base import Slice
from tests.convert.readers import read_all

runs = st.lists(st.integers(0, 3), min_size=1, max_size=40)
END = 0


def opened(path: Path, run: list[int], borders: Borders) -> flat.FlatFile:
    path.write_bytes(np.array(run, "<u2").tobytes())
    return arrays.open_raw(str(path), 0, borders, "uint16")


def split(run: list[int], *, before: bool) -> list[list[int]]:
    """The definition: a document ends behind each END, or begins with one."""
    found: list[list[int]] = []
    for at, token in enumerate(run):
        begins = token == END if before else run[at - 1] == END
        if at == 0 or begins:
            found.append([])
        found[-1].append(token)
    return found


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "SLICE_TOKENS", 5)
    monkeypatch.setattr(flat, "BATCH_TOKENS", 3)
    monkeypatch.setattr(flat, "_BLOCK", 2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs, st.booleans())
def test_a_run_is_split_at_separators_however_it_is_sliced(
    tmp_path: Path, small_slices: None, run: list[int], before: bool
) -> None:
    file = opened(tmp_path / "run.bin", run, Separated(END, before))
    assert [d for part in file.source.slices for d in documents(file, part)] == split(run, before=before)


def documents(file: flat.FlatFile, part: Slice) -> list[list[int]]:
    found = []
    for some in file.read(part):
        assert some.byte_offsets is not None
        ends = some.lengths.cumsum().tolist()
        for begin, end, offset in zip([0, *ends[:-1]], ends, some.byte_offsets.tolist(), strict=True):
            # Where lineage says that it begins is where it does.
            raw = Path(file.run.uri).read_bytes()[offset:]
            assert np.frombuffer(raw, "<u2", end - begin).tolist() == some.tokens[begin:end].tolist()
            found.append(some.tokens[begin:end].tolist())
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs, st.integers(1, 12))
def test_documents_of_one_length_keep_a_shorter_last_one(
    tmp_path: Path, small_slices: None, run: list[int], length: int
) -> None:
    file = opened(tmp_path / "run.bin", run, Every(length))
    assert read_all(file) == [run[at : at + length] for at in range(0, len(run), length)]


def test_a_document_too_large_to_hold_is_told_and_not_read(
    tmp_path: Path, small_slices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat, "MAX_DOCUMENT_TOKENS", 8)
    run = [1, END, *[2] * 30, END, 3]
    file = opened(tmp_path / "run.bin", run, Separated(END))
    found: list[Documents] = [some for part in file.source.slices for some in file.read(part)]
    assert [(some.reason, len(some.lengths)) for some in found] == [(None, 1), ("too_large", 1), (None, 1)]
    assert found[1].tokens.size == 0
    assert found[2].tokens.tolist() == [3]
