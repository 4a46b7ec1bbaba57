"""TFRecord files of `tf.train.Example`: framing, both checksums, planning by record ranges, and a small writer.

    record = length u64 | masked CRC-32C of the length u32 | payload [length] | masked CRC-32C of the payload u32

All little-endian. Nothing marks where a record begins, so behind a damaged length nothing can be read; behind a
damaged payload the next record is found again. A file of zero bytes is a file of zero records.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from headrace.dataeng.sources.base import (
    DAMAGED,
    Batch,
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
)
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
_WINDOW_BYTES: Final = 1 << 16


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
    columns: dict[str, str]

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """Cuts the file into ranges of whole records; the fingerprint covers every length and checksum."""
        del columns  # a record is read whole, whatever is wanted of it
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


def probe(uri: str, size: int) -> TFRecordProbe:
    """Looks at the first records. Raises InputError if the file does not begin with a record of an Example."""
    columns: dict[str, str] = {}
    problems: list[str] = []
    seen = 0
    with open_input(uri) as file:
        for frame in _frames(file, size):
            if frame.problem:
                problems.append(f"record {seen} at byte {frame.offset:,}: {frame.problem}")
                break
            file.seek(frame.offset + _HEADER.size)
            try:
                features = parse_example(file.read(frame.length))
            except NotAnExampleError as error:
                problems.append(f"record {seen} at byte {frame.offset:,}: not a tf.train.Example ({error})")
            else:
                for name, feature in features.items():
                    columns.setdefault(name, _kind(feature))
            seen += 1
            if seen == _PROBED_RECORDS:
                break
    if problems and not columns:
        raise InputError(f"{redact(uri)}: {problems[0]}")
    return TFRecordProbe(uri, size, columns)


def _kind(feature: Feature) -> str:
    return {"bytes": "text", "int64": "integer", "float": "float", "none": "null"}[feature.kind]


def read(source: SourceFile, part: Slice, columns: Columns) -> Iterator[Batch]:
    """Every record of the slice. See `read_slice`."""
    assert part.byte_offset is not None
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
