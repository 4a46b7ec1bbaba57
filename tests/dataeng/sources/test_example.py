from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng.sources.example import (
    NotAnExampleError,
    bytes_values,
    encode_example,
    int_values,
    parse_example,
)

feature_values = st.one_of(st.binary(max_size=300), st.integers(-(2**63), 2**63 - 1))
some_features = st.dictionaries(st.text(max_size=10), feature_values, max_size=5)


def message(number: int, value: bytes) -> bytes:
    """A length-delimited field of under 128 bytes."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def length_delimited(number: int, value: bytes) -> bytes:
    """The same of any length, which is written as five bytes whatever it is."""
    length = len(value)
    return (
        bytes([number << 3 | 2, *(length >> shift & 0x7F | 0x80 for shift in (0, 7, 14, 21)), length >> 28])
        + value
    )


def entry(name: bytes, feature: bytes) -> bytes:
    return message(1, message(1, name) + message(2, feature))


@given(features=some_features)
def test_what_is_written_reads_back(features: dict[str, bytes | str | int]) -> None:
    parsed = parse_example(encode_example(features))
    read = {
        name: bytes_values(feature)[0] if feature.kind == "bytes" else int_values(feature)[0]
        for name, feature in parsed.items()
    }
    assert read == features


@given(payload=st.binary(max_size=200))
def test_any_bytes_are_an_example_or_are_refused(payload: bytes) -> None:
    try:
        features = parse_example(payload)
        for feature in features.values():
            bytes_values(feature)
            int_values(feature)
    except NotAnExampleError:
        pass


@given(features=some_features, at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_never_ends_in_another_error(
    features: dict[str, bytes | str | int], at: int, byte: int
) -> None:
    payload = bytearray(encode_example({**features, "text": b"some text"}))
    payload[at % len(payload)] = byte
    try:
        for feature in parse_example(bytes(payload)).values():
            bytes_values(feature)
            int_values(feature)
    except NotAnExampleError:
        pass


def test_every_proper_prefix_of_a_single_field_is_refused() -> None:
    payload = encode_example({"text": b"some text", "n": 7})
    for end in range(1, len(payload)):
        with pytest.raises(NotAnExampleError):
            parse_example(payload[:end])


def test_an_empty_payload_is_an_example_without_features() -> None:
    assert parse_example(b"") == {}


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = b"\x78\x96\x01" + b"\x79" + b"8 bytes." + b"\x7a\x03abc" + b"\x7d" + b"four"
    text = entry(b"text", message(1, message(1, b"kept")) + unknown)
    parsed = parse_example(unknown + message(1, text) + unknown)
    assert bytes_values(parsed["text"]) == [b"kept"]


def test_of_a_repeated_key_the_last_wins() -> None:
    first = entry(b"text", message(1, message(1, b"first")))
    second = entry(b"text", message(1, message(1, b"second")))
    assert bytes_values(parse_example(message(1, first + second))["text"]) == [b"second"]
    assert bytes_values(parse_example(message(1, first) + message(1, second))["text"]) == [b"second"]


def test_parts_of_one_list_are_joined_and_of_two_kinds_the_last_wins() -> None:
    parts = message(1, message(1, b"a")) + message(1, message(1, b"b"))
    assert bytes_values(parse_example(message(1, entry(b"text", parts)))["text"]) == [b"a", b"b"]
    both = message(1, message(1, b"a")) + message(3, message(1, b"\x07"))
    feature = parse_example(message(1, entry(b"text", both)))["text"]
    assert (feature.kind, int_values(feature)) == ("int64", [7])


def test_integers_are_read_packed_and_not_packed() -> None:
    feature = message(3, b"\x08\x01" + message(1, b"\x02\x03") + b"\x08" + b"\xff" * 9 + b"\x01")
    assert int_values(parse_example(message(1, entry(b"n", feature)))["n"]) == [1, 2, 3, -1]


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"\x0b\x0c", "wire type 3"),  # a group
        (b"\x00\x00", "field number 0"),
        (b"\x0a\xff\xff\xff\xff\x0f", "where 0 are left"),  # a length of 4 GiB allocates nothing
        (b"\x0a" + b"\xff" * 10, "more than 64 bits"),
        (b"\x0a\x80", "ends inside a number"),
        (b"\x08\x01", "wrong wire type"),
        (message(1, entry(b"\xff", b"")), "not UTF-8"),
    ],
)
def test_what_is_wrong_is_said(payload: bytes, problem: str) -> None:
    with pytest.raises(NotAnExampleError, match=problem):
        parse_example(payload)


@pytest.mark.timeout(20)
def test_a_list_in_very_many_parts_takes_time_in_proportion() -> None:
    parts = message(1, message(1, b"x")) * 800_000
    feature = length_delimited(2, parts)
    features = parse_example(length_delimited(1, length_delimited(1, message(1, b"n") + feature)))
    assert len(bytes_values(features["n"])) == 800_000
