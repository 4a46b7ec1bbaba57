from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.convert import flat, megatron
from headrace.errors import InputError
from tests.convert.files import CODES, megatron_index, write_megatron
from tests.convert.readers import read_all

sequences = st.lists(st.lists(st.integers(0, 120), max_size=5), min_size=1, max_size=12)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few documents are many blocks, slices and batches."""
    monkeypatch.setattr(megatron, "_BLOCK", 3)
    monkeypatch.setattr(flat, "_BLOCK", 3)
    monkeypatch.setattr(flat, "SLICE_TOKENS", 7)
    monkeypatch.setattr(flat, "BATCH_TOKENS", 4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(sequences, st.sampled_from(sorted(CODES)), st.data())
def test_documents_are_the_sequences_between_borders(
    tmp_path: Path, small_blocks: None, some: list[list[int]], dtype: str, data: st.DataObject
) -> None:
    if not any(some):
        some = [[1]]
    inner = sorted(data.draw(st.lists(st.integers(0, len(some)), max_size=6)))
    borders = [0, *inner, len(some)]
    prefix = write_megatron(tmp_path / "some", some, dtype, borders)
    wanted = [
        [token for sequence in some[begin:end] for token in sequence] for begin, end in pairwise(borders)
    ]
    assert read_all(megatron.open_file(prefix, 0)) == wanted


def test_a_large_file_is_cut_into_slices_at_documents(tmp_path: Path, small_blocks: None) -> None:
    prefix = write_megatron(tmp_path / "some", [[n] * 3 for n in range(20)], "uint16")
    source = megatron.open_file(prefix, 4).source
    assert (source.name, source.format, source.num_rows) == (f"{prefix}.bin", "megatron", 20)
    assert [part.num_rows for part in source.slices] == [3, 3, 3, 3, 3, 3, 2]
    assert [part.byte_offset for part in source.slices] == [18 * n for n in range(7)]
    assert {part.file for part in source.slices} == {4}


def put(offset: int, kind: str, value: int) -> Callable[[bytes], bytes]:
    """Writes over one number of an index of 4 sequences of 2 tokens in uint16."""

    def damage(index: bytes) -> bytes:
        changed = bytearray(index)
        struct.pack_into(kind, changed, offset, value)
        return bytes(changed)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put(0, "<B", 0), "not a Megatron index of version 1"),
        (put(9, "<Q", 2), "not a Megatron index of version 1"),
        (put(17, "<B", 9), "dtype code 9"),
        (put(17, "<B", 7), "'float32'; token ids are integers"),
        (put(18, "<Q", 2**61), "cut short or damaged"),
        (put(18, "<Q", 0), "cut short or damaged"),
        (put(26, "<Q", 2**40), "cut short or damaged"),
        (lambda index: index[:-1], "cut short or damaged"),
        (lambda index: index[:20], "shorter than the header"),
        (put(38, "<i", -2), "sequence 1 has -2 tokens"),
        (put(38, "<i", 3), "sequence 2 begins at byte 8, and the one before ends at 10"),
        (put(46, "<i", 3), "its sequences take 18 bytes"),
        (put(58, "<q", 0), "sequence 1 begins at byte 0, and the one before ends at 4"),
        (put(58, "<q", -(2**60)), "sequence 1 begins at byte"),
        (put(82, "<q", 1), "do not ascend from sequence 0 to 4"),
        (put(90, "<q", 3), "do not ascend from sequence 0 to 4"),
        (put(98, "<q", 2**62), "do not ascend from sequence 0 to 4"),
        (put(114, "<q", 3), "do not ascend from sequence 0 to 4"),
        (lambda index: index + bytes([0, 0, 1, 0]), "sequence 2 is of another mode than text"),
    ],
)
def test_an_index_that_cannot_be_is_refused_by_name(
    damage: Callable[[bytes], bytes], message: str, tmp_path: Path
) -> None:
    prefix = write_megatron(tmp_path / "some", [[1, 2]] * 4, "uint16")
    index = Path(f"{prefix}.idx")
    index.write_bytes(damage(index.read_bytes()))
    with pytest.raises(InputError, match=message) as raised:
        megatron.open_file(prefix, 0)
    assert "some.idx" in str(raised.value)


def test_modes_that_are_all_text_are_nothing_to_lose(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "some", [[1, 2], [3]], "int32")
    index = Path(f"{prefix}.idx")
    index.write_bytes(index.read_bytes() + bytes(2))
    assert read_all(megatron.open_file(prefix, 0)) == [[1, 2], [3]]


def test_tokens_that_are_cut_short_are_refused_before_any_work(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "some", [[1, 2], [3]], "uint16")
    tokens = Path(f"{prefix}.bin")
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(InputError, match=r"take 6 bytes, and .*some.bin has 4"):
        megatron.open_file(prefix, 0)
    tokens.write_bytes(tokens.read_bytes()[:-1])
    with pytest.raises(InputError, match="not whole integers of 2 bytes"):
        megatron.open_file(prefix, 0)


def test_a_file_that_changes_after_it_was_planned_is_not_read(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "some", [[1, 2], [3]], "uint16")
    file = megatron.open_file(prefix, 0)
    Path(f"{prefix}.bin").write_bytes(np.array([4, 5, 6], "<u2").tobytes())
    with pytest.raises(InputError, match="changed since"):
        read_all(file)


def test_the_golden_index_is_what_the_page_says() -> None:
    golden = Path(__file__).parent / "golden" / "two_documents.idx.txt"
    lines = [line.partition("#")[0] for line in golden.read_text().splitlines()]
    assert megatron_index([3, 1], "uint16") == bytes.fromhex("".join(lines))
