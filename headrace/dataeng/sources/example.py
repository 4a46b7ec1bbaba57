"""Read and write `tf.train.Example`, the protobuf message inside TFRecord files, without protobuf or TensorFlow.

    Example   { Features features = 1; }
    Features  { map<string, Feature> feature = 1; }     an entry is { string key = 1; Feature value = 2; }
    Feature   { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
    BytesList { repeated bytes value = 1; }             Int64List { repeated int64 value = 1 [packed]; }

The parser follows the wire format: unknown fields are skipped, of a repeated key the last wins. It is strict where
protobuf is lenient: a known field of the wrong wire type, a group, or a byte too many is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS: Final = {1: "bytes", 2: "float", 3: "int64"}


class NotAnExampleError(ValueError):
    """The payload is not a tf.train.Example; the message says at which byte it stops being one."""


class Feature(NamedTuple):
    """`kind` is "bytes", "float", "int64" or "none"; `data` is its value list, still encoded."""

    kind: str
    data: bytes


def parse_example(payload: bytes) -> dict[str, Feature]:
    """The features by name. Raises NotAnExampleError."""
    features: dict[str, Feature] = {}
    for features_message in _messages(payload, 1):
        for entry in _messages(features_message, 1):
            name, feature = _entry(entry)
            features[name] = feature
    return features


def bytes_values(feature: Feature) -> list[bytes]:
    """The values of a "bytes" feature. Raises NotAnExampleError."""
    return list(_messages(feature.data, 1))


def int_values(feature: Feature) -> list[int]:
    """The values of an "int64" feature, packed or not. Raises NotAnExampleError."""
    values = []
    for number, wire, value in _fields(feature.data):
        if number != 1:
            continue
        if wire == _VARINT:
            values.append(int.from_bytes(value, "little"))
        elif wire == _BYTES:
            at = 0
            while at < len(value):
                integer, at = _varint(value, at)
                values.append(integer)
        else:
            raise NotAnExampleError("an integer of the wrong wire type")
    return [value - 2**64 if value >= 2**63 else value for value in values]


def encode_example(features: Mapping[str, bytes | str | int]) -> bytes:
    """An Example in which each feature holds one value; features are written in the order given."""
    entries = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, _encode_feature(value)))
        for name, value in features.items()
    )
    return _field(1, entries)


def _encode_feature(value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return _field(3, _field(1, _encode_varint(value & 2**64 - 1)))
    return _field(1, _field(1, value.encode() if isinstance(value, str) else value))


def _entry(entry: bytes) -> tuple[str, Feature]:
    name, feature = b"", Feature("none", b"")
    for number, wire, value in _fields(entry):
        if number not in (1, 2):
            continue
        if wire != _BYTES:
            raise NotAnExampleError("a feature entry of the wrong wire type")
        if number == 1:
            name = value
        else:
            feature = _feature(value)
    try:
        return name.decode(), feature
    except UnicodeDecodeError:
        raise NotAnExampleError("a feature name that is not UTF-8") from None


def _feature(message: bytes) -> Feature:
    last, parts = "none", list[bytes]()
    for number, wire, value in _fields(message):
        if number in _KINDS:
            if wire != _BYTES:
                raise NotAnExampleError("a value list of the wrong wire type")
            kind = _KINDS[number]  # of a oneof the last wins; parts of the same list are merged
            if kind != last:
                last, parts = kind, []
            parts.append(value)
    return Feature(last, b"".join(parts))


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    for number, wire, value in _fields(message):
        if number == wanted:
            if wire != _BYTES:
                raise NotAnExampleError(f"field {number} of the wrong wire type")
            yield value


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(number, wire type, value) of every field; a varint's value is given as 8 little-endian bytes."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if not 0 < number < 2**29:
            raise NotAnExampleError(f"field number {number} at byte {at}")
        if wire == _VARINT:
            integer, at = _varint(message, at)
            yield number, wire, integer.to_bytes(8, "little")
            continue
        if wire == _BYTES:
            size, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise NotAnExampleError(f"wire type {wire} at byte {at}")
        if size > end - at:
            raise NotAnExampleError(f"a field of {size:,} bytes where {end - at:,} are left")
        yield number, wire, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise NotAnExampleError("the message ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
    raise NotAnExampleError(f"a number of more than 64 bits before byte {at}")


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited field; an int64 list is written packed, so it is one too."""
    return bytes([number << 3 | _BYTES]) + _encode_varint(len(value)) + value
