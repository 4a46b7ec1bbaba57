from __future__ import annotations

import random

import pytest

from headrace.tokenize.shard_check import unpack
from headrace.tokenize.shard_writer import compress

RAW = random.Random(0).randbytes(300_000) + b"a" * 300_000


@pytest.fixture(scope="module")
def stored() -> bytes:
    return compress(RAW, 3)


def unpacked(stored: bytes, size: int = len(RAW)) -> tuple[bytes, str | None]:
    raw, trouble = unpack(stored, memoryview(bytearray(size)))
    return bytes(raw), trouble


def test_what_is_whole_is_unpacked(stored: bytes) -> None:
    assert unpacked(stored) == (RAW, None)


def test_blocks_before_the_damage_are_kept(stored: bytes) -> None:
    damaged = stored[:-1] + bytes([stored[-1] ^ 1])  # the checksum of it all
    raw, trouble = unpacked(damaged)
    assert raw == RAW
    assert trouble is not None
    assert "behind byte 600,000" in trouble
    raw, trouble = unpacked(stored[:200_000])
    assert 100_000 < len(raw) < len(RAW)
    assert raw == RAW[: len(raw)]
    assert trouble is not None


def test_more_than_was_packed_is_never_unpacked(stored: bytes) -> None:
    raw, trouble = unpacked(stored, len(RAW) - 1)
    assert raw == RAW[:-1]
    assert trouble == "unpacks to more than 599,999 bytes, 599,999 were packed"
    bomb = compress(bytes(50_000_000), 19)
    assert unpacked(bomb, 10) == (bytes(10), "unpacks to more than 10 bytes, 10 were packed")


def test_what_is_no_zstd_gives_nothing() -> None:
    raw, trouble = unpacked(b"not zstd at all, but long enough to look at")
    assert raw == b""
    assert trouble is not None
    assert "zstd cannot unpack it" in trouble
