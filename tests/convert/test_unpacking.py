from __future__ import annotations

import bz2
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import zstandard

from headrace.convert.unpacking import unpack
from headrace.errors import DamageError, MissingExtra

DATA = b"some tokens " * 1000


def packers() -> dict[str, Callable[[bytes], bytes]]:
    import brotli
    import snappy

    return {
        "zstd": zstandard.ZstdCompressor().compress,
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "br": brotli.compress,
        "snappy": snappy.compress,
    }


KINDS = ("zstd", "gz", "bz2", "br", "snappy")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_packed_comes_out(kind: str) -> None:
    assert unpack(packers()[kind](DATA), kind, len(DATA), "shard") == DATA


def test_several_frames_are_one_file() -> None:
    pack = zstandard.ZstdCompressor().compress
    assert unpack(pack(DATA[:5]) + pack(DATA[5:]), "zstd", len(DATA), "shard") == DATA
    assert unpack(gzip.compress(DATA[:5]) + gzip.compress(DATA[5:]), "gz", len(DATA), "shard") == DATA


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "damage", [lambda d: d[:-5], lambda d: d[: len(d) // 2], lambda d: d[:0], lambda d: b"\xff" * len(d)]
)
def test_damage_is_told_with_the_name(kind: str, damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(DamageError, match="the shard"):
        unpack(damage(packers()[kind](DATA)), kind, len(DATA), "the shard")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, len(DATA) - 1, len(DATA) + 1])
def test_another_size_than_was_told_is_damage(kind: str, size: int) -> None:
    with pytest.raises(DamageError, match="the shard"):
        unpack(packers()[kind](DATA), kind, size, "the shard")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_takes_no_more_memory_than_was_told(kind: str) -> None:
    bomb = packers()[kind](bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DamageError):
            unpack(bomb, kind, 1 << 20, "the shard")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize(("kind", "module"), [("br", "brotli"), ("snappy", "snappy")])
def test_a_missing_library_says_what_to_install(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data: Any = packers()[kind](DATA)
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'headrace\[mosaic\]'"):
        unpack(data, kind, len(DATA), "shard")


def test_checksums_are_in_force() -> None:
    packed = bytearray(zlib.compress(DATA, wbits=31))
    packed[-6] ^= 1  # of the CRC
    with pytest.raises(DamageError):
        unpack(bytes(packed), "gz", len(DATA), "shard")
