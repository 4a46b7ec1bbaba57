from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.sources.base import SourceDamage, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.dataeng.sources.example import encode_example
from headrace.dataeng.sources.tfrecord import FRAME_BYTES, TFRecordWriter, masked_crc
from headrace.errors import DamageError, HeadraceError, InputError
from tests.dataeng.sources.reading import read_all

some_texts = st.lists(
    st.text(min_size=1, max_size=50).filter(lambda t: not t.encode().isspace()), max_size=20
)


def records(*payloads: bytes) -> bytes:
    file = io.BytesIO()
    with TFRecordWriter(file) as writer:
        for payload in payloads:
            writer.write_payload(payload)
    return file.getvalue()


def examples(*texts: str) -> bytes:
    return records(*(encode_example({"text": text, "id": number}) for number, text in enumerate(texts)))


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tfrecord")


def test_the_masked_crc_is_the_one_of_the_format() -> None:
    # The CRC-32C of RFC 3720 for 32 zero bytes is 0x8A9136AA; the mask is the format's.
    crc = 0x8A9136AA
    assert masked_crc(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


@given(texts=some_texts, slice_bytes=st.integers(1, 400))
@settings(max_examples=50)
def test_texts_read_back_in_order_however_the_file_is_cut(
    scratch: Path, texts: list[str], slice_bytes: int
) -> None:
    rows = read_all(
        write(scratch, examples(*texts)), slice_bytes=slice_bytes, id_column="id" if texts else None
    )
    assert rows.texts == texts
    assert rows.ids == [str(number) for number in range(len(texts))]
    assert rows.rejects == {}


@given(texts=some_texts, seed=st.integers(0, 2**16), byte=st.integers(1, 255))
@settings(max_examples=100)
def test_a_flipped_byte_is_found_and_spares_what_is_before_it(
    scratch: Path, texts: list[str], seed: int, byte: int
) -> None:
    data = bytearray(examples("first", *texts))
    at = seed % len(data)
    data[at] ^= byte
    path = write(scratch, bytes(data))
    kept: list[str] = []
    message = str(path)
    try:
        found = discover([str(path)], text_column="text", allow_damage=True)
        for part in found.sources[0].slices:
            for batch in read_slice(found.sources[0], part, found.columns):
                kept += [text for text in batch.texts.to_pylist() if text is not None]
    except HeadraceError as error:
        message = str(error)
    assert str(path) in message
    intact = ["first", *texts]
    # Each damaged record is missing or the rest of the file is; nothing is ever another text.
    assert len(kept) < len(intact)
    remaining = iter(intact)
    assert all(text in remaining for text in kept)


@given(texts=some_texts, cut=st.integers(1, 1000))
@settings(max_examples=50)
def test_a_cut_file_gives_its_whole_records_and_then_says_where_it_ends(
    scratch: Path, texts: list[str], cut: int
) -> None:
    data = examples("first", *texts)
    first_bytes = len(examples("first"))
    cut = min(cut, len(data) - first_bytes)
    if cut == 0:
        return
    path = write(scratch, data[:-cut])
    whole = next(
        n for n in range(len(texts), -1, -1) if len(examples("first", *texts[:n])) <= len(data) - cut
    )
    at_border = len(examples("first", *texts[:whole])) == len(data) - cut
    if at_border:
        assert read_all(path).texts == ["first", *texts[:whole]]
        return
    with pytest.raises(DamageError, match=f"record {whole + 1} at byte"):
        discover([str(path)])
    found = discover([str(path)], allow_damage=True)
    *good, last = found.sources[0].slices
    assert sum(part.num_rows or 0 for part in good) == 1 + whole
    with pytest.raises(SourceDamage, match="cannot be found"):
        list(read_slice(found.sources[0], last, found.columns))


def test_a_damaged_payload_is_one_reject_with_its_record_and_offset(tmp_path: Path) -> None:
    data = bytearray(examples("one", "two", "three"))
    begin = len(examples("one"))
    data[begin + 20] ^= 1
    rows = read_all(write(tmp_path, bytes(data)))
    assert rows.texts == ["one", "three"]
    assert rows.rejects == {(None, 1): "damaged"}
    assert rows.byte_offsets == [0, begin, len(examples("one", "two"))]


def test_a_damaged_length_is_reported_at_planning_with_its_record_and_offset(tmp_path: Path) -> None:
    data = bytearray(examples("one", "two", "three"))
    begin = len(examples("one"))
    data[begin + 3] ^= 1
    with pytest.raises(
        DamageError, match=rf"record 1 at byte {begin}: the length does not match its checksum"
    ):
        discover([str(write(tmp_path, bytes(data)))])


def test_a_hostile_length_with_a_good_checksum_allocates_nothing(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**62)
    path = write(tmp_path, examples("one") + length + struct.pack("<I", masked_crc(length)) + bytes(100))
    with pytest.raises(DamageError, match="claims 4,611,686,018,427,387,904 bytes, the file has"):
        discover([str(path)])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "no_text"),
        (encode_example({"id": "x"}), "no_text"),
        (encode_example({"text": 7}), "not_text"),
        (encode_example({"text": ""}), "empty"),
        (encode_example({"text": " \n"}), "blank"),
        (encode_example({"text": b"caf\xe9"}), "not_utf8"),
        (encode_example({"text": b"\xed\xa0\x80"}), "not_utf8"),  # a lone surrogate
        (encode_example({"text": "fine", "id": b"\xff"}), "not_utf8"),
        (b"no protobuf here", "not_example"),
        (b"\x12\x06\x0a\x04text", "no_text"),  # a SequenceExample
    ],
)
def test_a_record_that_is_not_a_document_is_a_reject_with_its_reason(
    tmp_path: Path, payload: bytes, reason: str
) -> None:
    good = encode_example({"text": "good", "id": "a"})
    rows = read_all(write(tmp_path, records(good, payload, good)), id_column="id")
    assert rows.texts == ["good", "good"]
    assert rows.ids == ["a", "a"]
    assert rows.rejects == {(None, 1): reason}


def test_nul_and_four_byte_characters_are_text(tmp_path: Path) -> None:
    texts = ["\0", "a\0b", "\N{GRINNING FACE}", "\ufeffx"]
    assert read_all(write(tmp_path, examples(*texts))).texts == texts


def test_a_file_of_zero_bytes_is_a_file_of_zero_records(tmp_path: Path) -> None:
    assert read_all(write(tmp_path, b"")).texts == []


def test_a_file_of_other_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"record 0 at byte 0: not a tf\.train\.Example"):
        discover([str(write(tmp_path, records(b"just bytes")))])


def test_a_file_that_changed_after_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, examples("one", "two"))
    found = discover([str(path)])
    write(tmp_path, examples("other", "texts"))
    with pytest.raises(InputError, match="changed while it was read"):
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))


def test_the_fingerprint_covers_every_payload(tmp_path: Path) -> None:
    one = discover([str(write(tmp_path, examples("one", "two")))]).sources[0].fingerprint
    other = discover([str(write(tmp_path, examples("one", "twi")))]).sources[0].fingerprint
    assert one != other


def test_slices_tile_the_file(tmp_path: Path) -> None:
    data = examples(*("x" * 100 for _ in range(50)))
    source = discover([str(write(tmp_path, data))], slice_bytes=500).sources[0]
    assert len(source.slices) > 5
    position = 0
    for part in source.slices:
        assert part.byte_offset == position
        position += part.text_bytes + FRAME_BYTES * (part.num_rows or 0)
    assert position == len(data)


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("codec", PACK)
@given(texts=some_texts)
@settings(max_examples=30)
def test_a_compressed_file_reads_as_the_plain_one_whatever_its_name(
    scratch: Path, codec: str, texts: list[str]
) -> None:
    plain = read_all(write(scratch, examples("first", *texts)), id_column="id")
    packed = write(scratch, PACK[codec](examples("first", *texts)))
    assert discover([str(packed)]).sources[0].codec == codec
    assert read_all(packed, id_column="id", slice_bytes=10) == plain


@pytest.mark.parametrize("codec", PACK)
def test_a_cut_compressed_file_keeps_the_records_before_the_cut(tmp_path: Path, codec: str) -> None:
    texts = [f"{number} {number * 7919 % 104729}" for number in range(5000)]
    path = write(tmp_path, PACK[codec](examples(*texts))[:-10])
    found = discover([str(path)])
    with pytest.raises(SourceDamage, match=r"record [\d,]+: the .* data ends inside") as caught:
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))
    assert 0 < caught.value.intact_rows <= 5000


def test_a_damaged_length_inside_a_compressed_file_keeps_the_records_before_it(tmp_path: Path) -> None:
    data = bytearray(examples("one", "two", "three"))
    begin = len(examples("one"))
    data[begin + 3] ^= 1
    path = write(tmp_path, gzip.compress(bytes(data)))
    found = discover([str(path)])
    with pytest.raises(SourceDamage, match=rf"record 1: record at byte {begin} .* does not match") as caught:
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))
    assert caught.value.intact_rows == 1


def test_a_damaged_payload_inside_a_compressed_file_is_one_reject(tmp_path: Path) -> None:
    data = bytearray(examples("one", "two", "three"))
    data[len(examples("one")) + 20] ^= 1
    rows = read_all(write(tmp_path, gzip.compress(bytes(data))))
    assert (rows.texts, rows.rejects) == (["one", "three"], {(None, 1): "damaged"})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_records_are_the_texts_themselves_when_that_is_said(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = write(tmp_path, pack(records(b"one", b"", b"caf\xe9", examples("x"), b" \n", b"two\0")))
    with pytest.raises(InputError, match="--tfrecord-payload text"):
        discover([str(path)])
    rows = read_all(path, raw_records=True)
    assert rows.texts == ["one", "two\0"]
    assert rows.rejects == {
        (None, 1): "empty",
        (None, 2): "not_utf8",
        (None, 3): "not_utf8",
        (None, 4): "blank",
    }


@pytest.mark.interop
def test_files_of_the_tfrecord_package_are_read(tmp_path: Path) -> None:
    import tfrecord

    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    writer.write({"text": (b"from elsewhere", "byte"), "id": (5, "int"), "score": (0.5, "float")})
    writer.close()
    rows = read_all(tmp_path / "a.tfrecord", id_column="id")
    assert (rows.texts, rows.ids) == (["from elsewhere"], ["5"])


@pytest.mark.interop
def test_the_tfrecord_package_reads_ours(tmp_path: Path) -> None:
    from tfrecord.reader import tfrecord_loader

    path = write(tmp_path, examples("one", "two"))
    read = tfrecord_loader(str(path), None, {"text": "byte", "id": "int"})
    assert [(bytes(row["text"]), int(row["id"][0])) for row in read] == [(b"one", 0), (b"two", 1)]
