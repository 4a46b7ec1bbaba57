"""Compressions of mosaicml-streaming, never unpacked further than the size that was told beforehand."""

from __future__ import annotations

import bz2
import zlib
from typing import Any, Final

from headrace.errors import DamageError, MissingExtra

_STEP: Final = 1 << 20


def unpack(data: bytes, kind: str, size: int, where: str) -> bytes:
    """The `size` bytes that were packed. kind: zstd, gz, br, bz2 or snappy.

    Raises:
        DamageError: they cannot be unpacked, or are more or fewer.
        MissingExtra: br and snappy need libraries of the extra `mosaic`.
    """
    try:
        found = _UNPACK[kind](data, size)
    except ImportError:
        package = {"br": "brotli", "snappy": "python-snappy"}[kind]
        raise MissingExtra(package, "mosaic", f"unpacking .{kind} shards") from None
    except Exception as error:  # noqa: BLE001 each library raises types of its own
        raise DamageError(
            f"{where}: cannot be unpacked ({kind}: {type(error).__name__}); restore it and run the same command again"
        ) from None
    if len(found) != size:
        more = "more than " if len(found) > size else ""
        raise DamageError(
            f"{where}: unpacks to {more}{min(len(found), size):,} bytes, its index says {size:,}; it is damaged or not what it "
            "says, and is refused"
        )
    return found


def _zstd(data: bytes, size: int) -> bytes:
    import zstandard

    # One frame or many, with or without their sizes.
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    return _upto(reader.read, size)


def _gzip(data: bytes, size: int) -> bytes:
    import gzip
    import io

    return _upto(gzip.GzipFile(fileobj=io.BytesIO(data)).read, size)


def _bzip2(data: bytes, size: int) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    found = unpacker.decompress(data, size + 1)
    if not unpacker.eof and len(found) <= size:
        raise EOFError
    return found


def _brotli(data: bytes, size: int) -> bytes:
    import brotli

    unpacker = brotli.Decompressor()
    found = bytearray(unpacker.process(data, output_buffer_limit=size + 1))
    while not unpacker.is_finished() and len(found) <= size:
        some = unpacker.process(b"", output_buffer_limit=size + 1 - len(found))
        if not some and not unpacker.is_finished():
            raise zlib.error("cut short")
        found += some
    return bytes(found)


def _snappy(data: bytes, size: int) -> bytes:
    import snappy

    told, shift = 0, 0
    for byte in data[:5]:  # the length in front, which the library would take memory for
        told |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if told != size:
        raise ValueError("another length")
    found: bytes = snappy.decompress(data)
    return found


def _upto(read: Any, size: int) -> bytes:
    """All there is, but no more than one byte over `size`."""
    found = bytearray()
    while len(found) <= size and (some := read(min(_STEP, size + 1 - len(found)))):
        found += some
    return bytes(found)


_UNPACK: Final = {"zstd": _zstd, "gz": _gzip, "br": _brotli, "bz2": _bzip2, "snappy": _snappy}
