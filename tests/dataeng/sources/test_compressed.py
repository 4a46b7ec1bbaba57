from __future__ import annotations

import gzip
import io
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.sources.compressed import (
    MAX_WINDOW_BYTES,
    Refused,
    StreamDamage,
    StreamReader,
    codec_of,
    decompress,
)


def zstd(data: bytes, **options: bool | int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(**{"write_checksum": True, **options})
    return zstandard.ZstdCompressor(compression_params=parameters).compress(data)


def skippable(data: bytes, number: int = 0) -> bytes:
    return struct.pack("<II", 0x184D2A50 + number, len(data)) + data


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd, "zlib": zlib.compress}
JOINED = ["gzip", "zstd"]  # formats that allow one file behind another


def unpack(data: bytes, codec: str) -> bytes:
    return b"".join(decompress(io.BytesIO(data), codec))


def unpack_until_damage(data: bytes, codec: str) -> tuple[bytes, StreamDamage | None]:
    """What was given before the damage, if there is any; a refusal gives nothing."""
    got = b""
    try:
        for chunk in decompress(io.BytesIO(data), codec):
            got += chunk
    except StreamDamage as damage:
        return got, damage
    except Refused as error:
        return b"", StreamDamage(str(error), 0)
    return got, None


@pytest.mark.parametrize("codec", PACK)
@given(data=st.binary(max_size=3000))
def test_what_was_compressed_reads_back_and_the_codec_is_told_by_its_first_bytes(
    codec: str, data: bytes
) -> None:
    packed = PACK[codec](data)
    assert codec_of(packed) == codec
    assert unpack(packed, codec) == data


@pytest.mark.parametrize("codec", JOINED)
@given(parts=st.lists(st.binary(max_size=300), min_size=1, max_size=5))
def test_all_members_and_frames_are_read(codec: str, parts: list[bytes]) -> None:
    assert unpack(b"".join(map(PACK[codec], parts)), codec) == b"".join(parts)


@given(parts=st.lists(st.tuples(st.binary(max_size=50), st.integers(0, 15)), max_size=5))
def test_skippable_frames_are_skipped_wherever_they_are(parts: list[tuple[bytes, int]]) -> None:
    frames = b"".join(skippable(junk, number) + zstd(junk) for junk, number in parts) + skippable(b"end")
    assert codec_of(frames) == "zstd"
    assert unpack(frames, "zstd") == b"".join(junk for junk, _ in parts)


@pytest.mark.parametrize("codec", PACK)
@given(data=st.binary(min_size=1, max_size=2000), cut=st.integers(1, 5000))
def test_a_cut_stream_gives_a_prefix_and_then_says_where_it_ends(codec: str, data: bytes, cut: int) -> None:
    packed = PACK[codec](data)
    packed = packed[: max(1, len(packed) - cut)]
    got, damage = unpack_until_damage(packed, codec)
    assert damage is not None
    assert re.search(rf"ends inside .* at byte {len(packed):,}$", str(damage))
    assert data.startswith(got)
    assert damage.intact == len(got)


@pytest.mark.parametrize("codec", PACK)
@given(data=st.binary(min_size=20, max_size=2000), at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=200)
def test_a_flipped_bit_never_passes_as_other_data(codec: str, data: bytes, at: int, bit: int) -> None:
    whole = PACK[codec](data)
    packed = bytearray(whole + whole if codec in JOINED else whole)
    expected = data + data if codec in JOINED else data
    packed[at % len(packed)] ^= 1 << bit
    got, damage = unpack_until_damage(bytes(packed), codec)
    if damage is None:
        # Only what says nothing about the data may change: times and systems in gzip, a frame renamed to skippable.
        assert got == expected or (codec == "zstd" and got in (b"", data))
    elif "ends inside" not in str(damage):  # a cut leaves no checksum to judge by
        assert expected.startswith(got[: damage.intact])


@pytest.mark.parametrize("codec", PACK)
def test_other_bytes_behind_the_end_are_damage_and_all_before_them_is_intact(codec: str) -> None:
    packed = PACK[codec](b"some text")
    for garbage in [b"garbage", b"x", b"\0garbage"]:
        with pytest.raises(StreamDamage) as caught:
            unpack(packed + garbage, codec)
        assert caught.value.intact == len(b"some text")


@pytest.mark.parametrize("zeros", [1, 511, 1_000_000])
def test_zeros_behind_a_gzip_member_are_padding(zeros: int) -> None:
    assert unpack(gzip.compress(b"a") + bytes(zeros), "gzip") == b"a"
    assert unpack(gzip.compress(b"a") + bytes(zeros) + gzip.compress(b"b"), "gzip") == b"ab"


@pytest.mark.parametrize("codec", PACK)
def test_memory_does_not_follow_what_a_small_file_expands_to(codec: str) -> None:
    bomb = PACK[codec](bytes(300 << 20))
    assert len(bomb) < 1 << 20
    largest = total = 0
    tracemalloc.start()
    for chunk in decompress(io.BytesIO(bomb), codec):
        largest, total = max(largest, len(chunk)), total + len(chunk)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 300 << 20
    assert largest <= 1 << 20
    assert peak < 16 << 20


def test_a_window_over_the_limit_is_refused_with_its_size_and_one_at_the_limit_is_read() -> None:
    def packed(window_log: int, *, size_known: bool) -> bytes:
        options = zstandard.ZstdCompressionParameters(
            window_log=window_log, write_content_size=size_known, compression_level=1
        )
        compressor = zstandard.ZstdCompressor(compression_params=options).compressobj(
            size=100 if size_known else -1
        )
        return compressor.compress(b"x" * 100) + compressor.flush()

    assert MAX_WINDOW_BYTES == 1 << 27
    assert unpack(packed(27, size_known=False), "zstd") == b"x" * 100
    with pytest.raises(
        Refused, match=r"frame 0 at byte 0 has a window of 1,073,741,824 bytes, at most 134,217,728 are"
    ):
        unpack(packed(30, size_known=False), "zstd")


def test_a_long_window_of_little_content_needs_little_memory_and_is_read() -> None:
    # Magic, descriptor (content size in 4 bytes, no single segment), window of 1 GiB, size, one raw last block.
    frame = (
        b"\x28\xb5\x2f\xfd"
        + bytes([2 << 6, 20 << 3])
        + struct.pack("<I", 3)
        + (3 << 3 | 1).to_bytes(3, "little")
    )
    assert unpack(frame + b"abc", "zstd") == b"abc"


def test_a_frame_that_needs_a_dictionary_is_refused() -> None:
    dictionary = zstandard.ZstdCompressionDict(b"a dictionary of words " * 20, zstandard.DICT_TYPE_RAWCONTENT)
    frame = bytearray(zstd(b"words"))
    assert dictionary.dict_id() == 0  # a raw one leaves no id in the frame, so one is written by hand
    assert frame[4] & 3 == 0
    frame[4] |= 1
    frame.insert(5, 7)
    with pytest.raises(Refused, match="needs a dictionary"):
        unpack(bytes(frame), "zstd")


@given(chunks=st.lists(st.binary(min_size=1, max_size=30)), counts=st.lists(st.integers(1, 40)))
def test_a_reader_gives_exactly_what_is_asked_for_until_the_end(
    chunks: list[bytes], counts: list[int]
) -> None:
    reader, data = StreamReader(iter(chunks)), io.BytesIO(b"".join(chunks))
    for count in counts:
        assert reader.read(count) == data.read(count)
        assert reader.offset == data.tell()
