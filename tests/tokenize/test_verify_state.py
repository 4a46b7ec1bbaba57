from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import IncompleteError, InputError, MismatchError
from headrace.tokenize.verify_state import VerifyState

HASH = "ab" * 32


def noted(path: Path, shards: list[int]) -> None:
    with VerifyState(path, HASH, 100) as state:
        for shard in shards:
            state.note(shard)


def intact(path: Path) -> list[int]:
    with VerifyState(path, HASH, 100) as state:
        return [int(shard) for shard in state.intact.nonzero()[0]]


def test_what_was_noted_is_there_again_and_runs_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "state"
    noted(path, [0, 1, 2, 7, 8, 50])
    assert path.read_bytes().splitlines()[1:] == [b"[0,2]", b"[7,8]", b"[50,50]"]
    noted(path, list(range(60, 100)))
    assert intact(path) == [0, 1, 2, 7, 8, 50, *range(60, 100)]


def test_a_state_cut_anywhere_is_continued_and_claims_nothing_that_was_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "state"
    noted(path, [0, 1, 5, 44])
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        assert set(intact(path)) <= {0, 1, 5, 44}
        noted(path, [9])
        assert 9 in intact(path)


def test_the_state_of_another_dataset_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "state"
    noted(path, [3])
    before = path.read_bytes()
    with pytest.raises(MismatchError, match="give another --state"):
        VerifyState(path, "cd" * 32, 100)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"notes\n", b"notes", b"{}\n", b"[1]\n", b"\xff\n", b"{" * 2000 + b"\n", b"[" * 100_000 + b"\n"]
)
def test_a_file_that_is_something_else_is_left_alone(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(data)
    with pytest.raises(InputError, match="left alone"):
        VerifyState(path, HASH, 100)
    assert path.read_bytes() == data


@pytest.mark.parametrize("line", ["[1]", "[5,4]", "[0,100]", "[-1,4]", "[true,2]", "7", '"x"', "[0.0,1]"])
def test_a_line_that_cannot_be_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "state"
    noted(path, [3])
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    with pytest.raises(InputError, match="left alone"):
        VerifyState(path, HASH, 100)


def test_two_verifications_do_not_share_a_state(tmp_path: Path) -> None:
    with VerifyState(tmp_path / "state", HASH, 100), pytest.raises(IncompleteError, match="another"):
        VerifyState(tmp_path / "state", HASH, 100)
    assert intact(tmp_path / "state") == []
