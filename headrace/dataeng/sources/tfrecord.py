"""TFRecord files of `tf.train.Example` or of plain texts: framing, both checksums, planning, and a small writer.

    record = length u64 | masked CRC-32C of the length u32 | payload [length] | masked CRC-32C of the payload u32

All little-endian. Nothing marks where a record begins, so behind a damaged length nothing can be read; behind a
damaged payload the next record is found again. A file of zero bytes is a file of zero records.

A plain file is planned by hopping from header to header and cut into ranges of records. A file that is compressed as a
whole (gzip or zlib, as TensorFlow writes them, or zstd) can only be read from its beginning, and is one slice.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from headrace.dataeng.sources.base import (
    DAMAGED,
    TOO_LARGE,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    Unreadable,
    require_planned,
    sampled_fingerprint,
)
from headrace.dataeng.sources.compressed import StreamDamage, StreamReader, decompress
from headrace.dataeng.sources.example import (
    Feature,
    NotAnExampleError,
    encode_example,
    parse_example,
)
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.sources.records import BatchBuilder
from headrace.dataeng.storage import redact
from headrace.errors import InputError

_HEADER: Final = struct.Struct("<QI")
_FOOTER: Final = struct.Struct("<I")
FRAME_BYTES: Final = _HEADER.size + _FOOTER.size
MAX_PAYLOAD: Final = 2**31 - 1  # protobuf's own limit; a longer length is damage, whatever its checksum says

_PROBED_RECORDS: Final = 16
_PROBED_BYTES: Final = 256 << 20  # longer records tell no feature
_WINDOW_BYTES: Final = 1 << 16
_IF_RAW: Final = "; if the records are the texts themselves, say --tfrecord-payload text"
_EXPANSION: Final = 4  # of compressed text, for planning only


def masked_crc(data: bytes) -> int:
    """CRC-32C rotated and offset, so that the CRC of data that holds CRCs stays useful."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class TFRecordWriter:
    """Writes Examples to a binary file that the caller owns: `with TFRecordWriter(file) as writer: writer.write(…)`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, features: Mapping[str, bytes | str | int]) -> None:
        """One record: an Example with one value for each feature."""
        self.write_payload(encode_example(features))

    def write_payload(self, payload: bytes) -> None:
        """One record of any bytes."""
        length = struct.pack("<Q", len(payload))
        frame = (length, _FOOTER.pack(masked_crc(length)), payload, _FOOTER.pack(masked_crc(payload)))
        self._file.write(b"".join(frame))

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.flush()


class _Frame(NamedTuple):
    """Where a record lies, or with `problem` set, why there is none at `offset`."""

    offset: int
    length: int
    crcs: bytes
    problem: str | None = None


def _frames(file: BinaryIO, size: int) -> Iterator[_Frame]:
    """Hops from header to header without reading payloads; ends at the end of the file or the first damage."""
    offset = 0
    window, window_at = b"", 0

    def look(at: int, count: int) -> bytes:
        nonlocal window, window_at
        if not window_at <= at <= at + count <= window_at + len(window):
            file.seek(at)
            window, window_at = file.read(min(size, _WINDOW_BYTES)), at
        return window[at - window_at : at - window_at + count]

    while offset < size:
        header = look(offset, _HEADER.size)
        if len(header) < _HEADER.size:
            yield _Frame(offset, 0, b"", f"the file ends {len(header)} bytes into a record's header")
            return
        length, length_crc = _HEADER.unpack(header)
        left = size - offset - FRAME_BYTES
        if masked_crc(header[:8]) != length_crc:
            yield _Frame(offset, 0, b"", "the length does not match its checksum")
            return
        if length > left or length > MAX_PAYLOAD:
            yield _Frame(
                offset, 0, b"", f"the record claims {length:,} bytes, the file has {max(left, 0):,} left"
            )
            return
        payload_crc = look(offset + _HEADER.size + length, _FOOTER.size)
        yield _Frame(offset, length, header + payload_crc)
        offset += FRAME_BYTES + length


def looks_like_tfrecord(head: bytes) -> bool:
    """Whether the first 12 bytes are a record's header with a valid checksum."""
    return len(head) >= _HEADER.size and masked_crc(head[:8]) == _HEADER.unpack(head[: _HEADER.size])[1]


@dataclass(frozen=True, slots=True)
class TFRecordProbe:
    """Features of the first records; the others are taken as they come."""

    uri: str = field(repr=False)
    size: int
    codec: str | None
    columns: dict[str, str]

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """Cuts the file into ranges of whole records; the fingerprint covers every length and checksum."""
        del columns  # a record is read whole, whatever is wanted of it
        if self.codec is not None:
            return self._plan_stream(file)
        digest = hashlib.sha256(b"tfrecord:%d\n" % self.size)
        slices: list[Slice] = []
        first, begin, payload_bytes, row = 0, 0, 0, 0
        problem: _Frame | None = None

        def close() -> None:
            nonlocal first, payload_bytes
            if row > first:
                slices.append(
                    Slice(
                        file=file,
                        first_row=first,
                        num_rows=row - first,
                        text_bytes=payload_bytes,
                        byte_offset=begin,
                    )
                )
            first, payload_bytes = row, 0

        with open_input(self.uri) as opened:
            for frame in _frames(opened, self.size):
                if frame.problem:
                    problem = frame
                    break
                if row > first and payload_bytes + frame.length > slice_bytes:
                    close()
                if row == first:
                    begin = frame.offset
                payload_bytes += frame.length
                digest.update(frame.crcs)
                row += 1
        close()
        if problem is not None:
            place = f"record {row:,} at byte {problem.offset:,}: {problem.problem}"
            digest.update(place.encode())
            slices.append(
                Slice(
                    file=file,
                    first_row=row,
                    num_rows=1,
                    text_bytes=0,
                    byte_offset=problem.offset,
                    damage=f"{place}; what follows it cannot be found",
                )
            )
            row += 1
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="tfrecord",
            size=self.size,
            fingerprint=digest.hexdigest(),
            num_rows=row,
            slices=tuple(slices),
        )

    def _plan_stream(self, file: int) -> SourceFile:
        with open_input(self.uri) as opened:
            fingerprint = sampled_fingerprint("tfrecord", opened, self.size)
        whole = Slice(file=file, num_rows=None, text_bytes=self.size * _EXPANSION, byte_offset=0)
        return SourceFile(
            uri=self.uri,
            name=redact(self.uri),
            format="tfrecord",
            codec=self.codec,
            size=self.size,
            fingerprint=fingerprint,
            num_rows=None,
            slices=(whole,),
        )


def probe(uri: str, size: int, codec: str | None = None, *, raw_records: bool = False) -> TFRecordProbe:
    """Looks at the first records. Raises InputError if the file does not begin with a record of an Example.

    Records that are texts themselves have no features, and nothing is asked of them.
    """
    if raw_records:
        return TFRecordProbe(uri, size, codec, {})
    columns: dict[str, str] = {}
    problems: list[str] = []
    seen = 0
    if codec is not None:
        return TFRecordProbe(uri, size, codec, _stream_columns(uri, codec))
    with open_input(uri) as file:
        for frame in _frames(file, size):
            if frame.problem:
                problems.append(f"record {seen} at byte {frame.offset:,}: {frame.problem}")
                break
            file.seek(frame.offset + _HEADER.size)
            try:
                features = parse_example(file.read(frame.length)) if frame.length <= _PROBED_BYTES else {}
            except NotAnExampleError as error:
                problems.append(
                    f"record {seen} at byte {frame.offset:,}: not a tf.train.Example ({error}){_IF_RAW}"
                )
            else:
                for name, feature in features.items():
                    columns.setdefault(name, _kind(feature))
            seen += 1
            if seen == _PROBED_RECORDS:
                break
    if problems and not columns:
        raise Unreadable(f"{redact(uri)}: {problems[0]}")
    return TFRecordProbe(uri, size, codec, columns)


def _stream_columns(uri: str, codec: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    problem = None
    with open_input(uri) as file:
        try:
            for record in islice(_records(decompress(file, codec), _PROBED_BYTES), _PROBED_RECORDS):
                try:
                    features = parse_example(record.payload) if record.payload is not None else {}
                except NotAnExampleError as error:
                    problem = (
                        problem
                        or f"record at byte {record.offset:,}: not a tf.train.Example ({error}){_IF_RAW}"
                    )
                    continue
                for name, feature in features.items():
                    columns.setdefault(name, _kind(feature))
        except StreamDamage as error:
            problem = problem or str(error)
    if problem and not columns:
        raise Unreadable(f"{redact(uri)}: {problem}")
    return columns


class _Record(NamedTuple):
    """A record of a stream: where it begins and ends in it, and its payload, None if that is not the checksum's."""

    offset: int
    payload: bytes | None
    reason: str | None = None


def _records(chunks: Iterator[bytes], longest: int) -> Iterator[_Record]:
    """The records of decompressed bytes; payloads over `longest` are not held. Raises StreamDamage where framing is lost."""
    stream = StreamReader(chunks)
    while True:
        offset = stream.offset
        header = stream.read(_HEADER.size)
        if not header:
            return
        place = f"record at byte {offset:,} of the decompressed data"
        if not looks_like_tfrecord(header):
            short = len(header) < _HEADER.size
            raise StreamDamage(
                f"{place}: the {'data ends inside its header' if short else 'length does not match its checksum'}",
                offset,
            )
        length = _HEADER.unpack(header)[0]
        if length > MAX_PAYLOAD:
            raise StreamDamage(f"{place}: it claims {length:,} bytes, more than a record may have", offset)
        if length > longest:
            if (passed := stream.skip(length + _FOOTER.size)) < length + _FOOTER.size:
                raise StreamDamage(f"{place}: it claims {length:,} bytes, {passed:,} are left", offset)
            yield _Record(offset, None, TOO_LARGE)
            continue
        body = stream.read(length + _FOOTER.size)
        if len(body) < length + _FOOTER.size:
            raise StreamDamage(f"{place}: it claims {length:,} bytes, {len(body):,} are left", offset)
        intact = _is_intact(body)
        yield _Record(offset, body[:length] if intact else None, None if intact else DAMAGED)


def _read_stream(source: SourceFile, columns: Columns) -> Iterator[Batch]:
    assert source.codec is not None
    require_planned(source)
    row = 0
    batch = BatchBuilder(row, columns)
    with open_input(source.uri) as file:
        try:
            for record in _records(decompress(file, source.codec), columns.max_row_bytes):
                batch.add(record.offset, record.payload, record.reason)
                row += 1
                if batch.is_full():
                    yield batch.build()
                    batch = BatchBuilder(row, columns)
        except StreamDamage as error:
            if batch.texts:
                yield batch.build()
            # Each record before that has its own checksum, whatever became of the one around them.
            raise SourceDamage(
                f"{source.name}: record {row:,}: {error}; the records before it are whole, what follows cannot be read",
                row,
            ) from None
    if batch.texts:
        yield batch.build()


def _kind(feature: Feature) -> str:
    return {"bytes": "text", "int64": "integer", "float": "float", "none": "null"}[feature.kind]


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every record of the slice. See `read_slice`."""
    if source.codec is not None:
        yield from _read_stream(source, columns)
        return
    assert part.byte_offset is not None
    assert part.num_rows is not None
    if part.damage is not None:
        raise SourceDamage(f"{source.name}: {part.damage}")
    with open_input(source.uri) as file:
        file.seek(part.byte_offset)
        offset, end = part.byte_offset, part.first_row + part.num_rows
        batch = BatchBuilder(part.first_row, columns)
        for row in range(part.first_row, end):
            header = file.read(_HEADER.size)
            length = _HEADER.unpack(header)[0] if looks_like_tfrecord(header) else -1
            body = b""
            if 0 <= length <= min(MAX_PAYLOAD, source.size - offset - FRAME_BYTES):
                if length > columns.max_row_bytes:  # which is not held to be told as what it is
                    batch.add(offset, None, TOO_LARGE)
                    offset += FRAME_BYTES + length
                    file.seek(offset)
                    continue
                body = file.read(length + _FOOTER.size)
            if len(body) != length + _FOOTER.size:
                raise InputError(
                    f"{source.name}: record {row:,} at byte {offset:,} is not where it was planned; the file "
                    "changed while it was read. Leave the inputs as they are and run the same command again"
                )
            if not _is_intact(body):
                file.seek(
                    offset + _HEADER.size
                )  # once more: a bit may have been lost on the way, not in the file
                body = file.read(length + _FOOTER.size)
            if _is_intact(body):
                batch.add(offset, body[:length], None)
            else:
                batch.add(offset, None, DAMAGED)
            offset += FRAME_BYTES + length
            if batch.is_full():
                yield batch.build()
                batch = BatchBuilder(row + 1, columns)
        if batch.texts:
            yield batch.build()


def _is_intact(body: bytes) -> bool:
    """Whether a payload is the one of the checksum behind it."""
    return body[-_FOOTER.size :] == _FOOTER.pack(masked_crc(body[: -_FOOTER.size]))
