from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.convert import datatrove, flat
from headrace.errors import InputError
from tests.convert.files import write_datatrove
from tests.convert.readers import read_all


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datatrove, "_BLOCK", 3)
    monkeypatch.setattr(flat, "SLICE_TOKENS", 7)
    monkeypatch.setattr(flat, "BATCH_TOKENS", 4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 65535), max_size=5), min_size=1, max_size=12), st.sampled_from([2, 4])
)
def test_documents_end_where_the_index_says(
    tmp_path: Path, small_blocks: None, some: list[list[int]], size: int
) -> None:
    if not any(some):
        some = [[1]]
    path = write_datatrove(tmp_path / "00000.ds", some, size)
    assert read_all(datatrove.open_file(path, 0)) == some


def test_what_datatrove_itself_wrote_is_read(tmp_path: Path) -> None:
    """The bytes that `TokenizedFile` of datatrove 0.10.1 wrote of [[1, 2, 3], [40000], [5, 0]], save_final_metadata on."""
    path = tmp_path / "00000_shuffled.ds"
    path.write_bytes(bytes.fromhex("010002000300409c05000000"))
    Path(f"{path}.index").write_bytes(bytes.fromhex("0300000000000000 0400000000000000 0600000000000000"))
    Path(f"{path}.metadata").write_bytes(b"gpt2|2\n6\n6.00 T")
    assert read_all(datatrove.open_file(str(path), 0)) == [[1, 2, 3], [40000], [5, 0]]


def test_without_metadata_the_size_of_an_id_is_asked_for(tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]], 4, metadata=False)
    with pytest.raises(InputError, match=r"uint16 or uint32, so give --dtype"):
        datatrove.open_file(path, 0)
    assert read_all(datatrove.open_file(path, 0, dtype="uint32")) == [[1, 2], [3]]
    Path(f"{path}.metadata").write_text("gpt2|2\n6\n6 T")
    with pytest.raises(InputError, match="metadata says uint16, and --dtype says otherwise"):
        datatrove.open_file(path, 0, dtype="uint32")


def test_metadata_that_says_nothing_is_as_good_as_none(tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]], 2)
    for text in ("", "gpt2|3\n", "gpt2|" + "9" * 100, "\n|2", "gpt2|٢"):
        Path(f"{path}.metadata").write_text(text)
        with pytest.raises(InputError, match=r"no \.ds\.metadata that says"):
            datatrove.open_file(path, 0)


def test_a_file_without_its_index_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]], 2)
    Path(f"{path}.index").unlink()
    with pytest.raises(InputError, match="--split-after"):
        datatrove.open_file(path, 0)


@pytest.mark.parametrize("ends", [[2, 4], [2], [3, 2, 3], [2**63, 3], [2**64 - 1, 3], [3, 3, 4]])
def test_ends_that_do_not_ascend_to_the_last_token_are_refused(ends: list[int], tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]], 2)
    Path(f"{path}.index").write_bytes(struct.pack(f"<{len(ends)}Q", *ends))
    with pytest.raises(InputError, match="do not ascend to the 3 tokens"):
        datatrove.open_file(path, 0)


@pytest.mark.parametrize("ending", ["", ".index"])
def test_a_file_that_is_cut_short_is_refused(ending: str, tmp_path: Path) -> None:
    path = write_datatrove(tmp_path / "a.ds", [[1, 2], [3]], 2)
    cut = Path(f"{path}{ending}")
    cut.write_bytes(cut.read_bytes()[:-1])
    with pytest.raises(InputError, match="cut short"):
        datatrove.open_file(path, 0)
