"""Decompress a whole file as a stream: gzip, zlib and zstd, in bounded memory, with damage named by its place.

A gzip file may have several members, a zstd file several frames and skippable ones between them; the stream is all of
them, one after another. Output is bounded for any input: zlib is asked for a limited number of bytes, and zstd is fed one
block at a time, of which none holds more than 128 KiB. Reading the frame and block headers here, three bytes a block, is
what tells a cut file from a whole one, and a window too large from damage, before the decoder is asked.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NoReturn

from headrace.errors import InputError

MAX_WINDOW_BYTES: Final = 1 << 27  # what zstd itself decodes without --long or --memory

_READ_BYTES: Final = 1 << 18
_CHUNK_BYTES: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"  # the upper three bytes of sixteen magic numbers
_MAX_BLOCK: Final = 1 << 17
_RLE: Final = 1


class StreamDamage(Exception):
    """The stream is not what was written. Of the output, the first `intact` bytes are.

    Where a decoder failed, what it had said may be wrong from the beginning of its member or frame. Of a stream that was
    cut all the output is taken to be intact: the checksum that would say so was cut off with the rest.
    """

    def __init__(self, problem: str, intact: int) -> None:
        super().__init__(problem)
        self.intact = intact


class Refused(InputError):
    """The stream is whole, as far as is known, and asks for more than headrace gives."""


def codec_of(head: bytes) -> str | None:
    """By the first bytes of a file: "gzip", "zstd", "zlib", or None for anything else."""
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if head.startswith(_ZSTD_MAGIC) or _is_skippable(head[:4]):
        return "zstd"
    # Deflate with a window of 32 KiB, which is what every writer uses, and the check bits of the second byte.
    if len(head) > 2 and head[0] == 0x78 and not int.from_bytes(head[:2], "big") % 31:
        return "zlib"
    return None


def decompress(file: BinaryIO, codec: str) -> Iterator[bytes]:
    """The decompressed bytes of `file` from where it stands to its end, in chunks of at most 1 MiB.

    Raises:
        StreamDamage: the file is cut, altered, or has other bytes behind its end.
        Refused: a frame needs more memory, or a dictionary.
    """
    if codec == "zstd":
        return _Zstd(file).chunks()
    return _deflate(file, codec)


def _deflate(file: BinaryIO, codec: str) -> Iterator[bytes]:
    window_bits = zlib.MAX_WBITS | 16 if codec == "gzip" else zlib.MAX_WBITS
    data, consumed, produced, verified, members = file.read(_READ_BYTES), 0, 0, 0, 0
    while data:
        decoder = zlib.decompressobj(window_bits)
        while not decoder.eof:
            ended = not data
            try:
                chunk = decoder.decompress(data, _CHUNK_BYTES)
            except zlib.error as error:
                what = f"{codec} member {members}" if codec == "gzip" else "the zlib stream"
                raise StreamDamage(
                    f"{what} is damaged before byte {consumed:,} ({_words(error)})", verified
                ) from None
            consumed += len(data) - len(decoder.unconsumed_tail) - len(decoder.unused_data)
            data = decoder.unconsumed_tail
            produced += len(chunk)
            if chunk:
                yield chunk
            elif ended and not decoder.eof:
                raise StreamDamage(f"the {codec} data ends inside a member, at byte {consumed:,}", produced)
            if not data and not decoder.eof:
                data = file.read(_READ_BYTES)
        members, verified = members + 1, produced
        data = decoder.unused_data or file.read(_READ_BYTES)
        while codec == "gzip" and data and not data.strip(b"\0"):  # tapes and block devices pad with zeros
            consumed += len(data)
            data = file.read(_READ_BYTES)
        if codec == "gzip" and data[:1] == b"\0":
            consumed += len(data) - len(data.lstrip(b"\0"))
            data = data.lstrip(b"\0")
        if data and len(data) < 2:
            data += file.read(_READ_BYTES)
        if data and not (codec == "gzip" and data.startswith(_GZIP_MAGIC)):
            raise StreamDamage(
                f"behind the {codec} data, at byte {consumed:,}, are other bytes: {_hex(data)}", verified
            )


@dataclass(frozen=True, slots=True)
class _Frame:
    header: bytes
    window: int
    content: int | None
    has_checksum: bool

    @property
    def memory(self) -> int:
        """What a decoder must hold: never more than the window, nor than there is."""
        return self.window if self.content is None else min(self.window, self.content)


class _Zstd:
    """Frame by frame, block by block."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer, self._at = b"", 0
        self._offset = file.tell()  # of the next byte to be taken
        self._produced = self._verified = 0

    def chunks(self) -> Iterator[bytes]:
        number = 0
        while magic := self._take(4):
            place = f"zstd frame {number} at byte {self._offset - len(magic):,}"
            if _is_skippable(magic):
                self._skip(int.from_bytes(self._all(4, place), "little"), place)
            elif magic == _ZSTD_MAGIC:
                yield from self._frame(magic, place)
            elif _ZSTD_MAGIC.startswith(magic):
                self._all(1, place)  # which is not there
            else:
                self._damaged(
                    f"at byte {self._offset - len(magic):,}, where a zstd frame would begin, is {_hex(magic)}"
                )
            number += 1

    def _frame(self, magic: bytes, place: str) -> Iterator[bytes]:
        import zstandard

        frame = self._header(magic, place)
        if frame.memory > MAX_WINDOW_BYTES:
            raise Refused(
                f"{place} has a window of {frame.window:,} bytes, at most {MAX_WINDOW_BYTES:,} are allowed, so that memory "
                "stays bounded; write it again with a smaller one: zstd -d --long=31 -c FILE | zstd -o NEW"
            )
        limit = min(max(frame.window, 1 << 10), 1 << 31)
        decoder = zstandard.ZstdDecompressor(max_window_size=limit).decompressobj()
        data, last = frame.header, False
        try:
            while True:
                chunk = decoder.decompress(data)
                self._produced += len(chunk)
                if chunk:
                    yield chunk
                if last:
                    break
                data, last = self._block(place)
                if last and frame.has_checksum:
                    data += self._all(4, place)
        except zstandard.ZstdError as error:
            self._damaged(f"{place} is damaged before byte {self._offset:,} ({_words(error)})")
        if not decoder.eof:
            self._damaged(f"{place} does not hold what it says")
        self._verified = self._produced

    def _header(self, magic: bytes, place: str) -> _Frame:
        header = magic + self._all(1, place)
        descriptor = header[4]
        size_flag, single, dictionary = descriptor >> 6, descriptor & 0x20, (0, 1, 2, 4)[descriptor & 3]
        size_bytes = (1 if single else 0, 2, 4, 8)[size_flag]
        rest = self._all((0 if single else 1) + dictionary + size_bytes, place)
        if any(rest[0 if single else 1 :][:dictionary]):
            raise Refused(f"{place} needs a dictionary, and headrace takes none; write it again without one")
        content = int.from_bytes(rest[len(rest) - size_bytes :], "little") if size_bytes else None
        if content is not None and size_flag == 1:
            content += 256
        if single:
            window = content or 0
        else:
            base = 1 << (10 + (rest[0] >> 3))
            window = base + base // 8 * (rest[0] & 7)
        return _Frame(header + rest, window, content, bool(descriptor & 4))

    def _block(self, place: str) -> tuple[bytes, bool]:
        """The bytes of the next block with its header, and whether it is the frame's last."""
        header = self._all(3, place)
        number = int.from_bytes(header, "little")
        kind, size = number >> 1 & 3, number >> 3
        if size > _MAX_BLOCK or kind == 3:
            self._damaged(
                f"{place} is damaged before byte {self._offset:,} (a block of kind {kind} and {size:,} bytes)"
            )
        return header + self._all(1 if kind == _RLE else size, place), bool(number & 1)

    def _take(self, count: int) -> bytes:
        """The next `count` bytes, or fewer at the end of the file."""
        while len(self._buffer) - self._at < count and (more := self._file.read(_READ_BYTES)):
            self._buffer, self._at = self._buffer[self._at :] + more, 0
        taken = self._buffer[self._at : self._at + count]
        self._at += len(taken)
        self._offset += len(taken)
        return taken

    def _all(self, count: int, place: str) -> bytes:
        taken = self._take(count)
        if len(taken) < count:
            raise StreamDamage(f"the zstd data ends inside {place}, at byte {self._offset:,}", self._produced)
        return taken

    def _skip(self, count: int, place: str) -> None:
        while count:
            count -= len(self._all(min(count, _READ_BYTES), place))

    def _damaged(self, problem: str) -> NoReturn:
        raise StreamDamage(problem, self._verified)


def _is_skippable(magic: bytes) -> bool:
    return len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPABLE


def _words(error: BaseException) -> str:
    """What a decoder says, without its own name and numbers."""
    return str(error).rpartition(": ")[2] or type(error).__name__


def _hex(data: bytes) -> str:
    return data[:8].hex(" ")


class StreamReader:
    """`read` of exactly as many bytes as asked for, over chunks; fewer only at the end. `offset` is the next byte's."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held, self._at = b"", 0
        self.offset = 0

    def read(self, count: int) -> bytes:
        parts, missing = [], count
        while missing:
            if self._at == len(self._held):
                self._held, self._at = next(self._chunks, b""), 0
                if not self._held:
                    break
            part = self._held[self._at : self._at + missing]
            self._at += len(part)
            missing -= len(part)
            parts.append(part)
        self.offset += count - missing
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def skip(self, count: int) -> int:
        """Passes over `count` bytes without holding them; how many there were."""
        missing = count
        while missing and (part := self.read(min(missing, _CHUNK_BYTES))):
            missing -= len(part)
        return count - missing
