from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng.sources.base import Columns, SourceDamage, read_slice
from headrace.dataeng.sources.discover import discover
from headrace.errors import InputError
from tests.dataeng.sources.reading import read_all

some_texts = st.lists(
    st.text(min_size=1, max_size=50).filter(lambda t: not t.encode("utf-8").isspace()), max_size=20
)
GOOD = b'{"text": "good", "id": "a"}\n'


def lines(*texts: str, **more: Any) -> bytes:
    rows = ({"text": text, "id": number, **more} for number, text in enumerate(texts))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write(directory: Path, data: bytes, name: str = "a.jsonl") -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jsonl")


@given(texts=some_texts, slice_bytes=st.integers(1, 400), escape=st.booleans(), last_end=st.booleans())
@settings(max_examples=100)
def test_texts_read_back_in_order_however_the_file_is_cut(
    scratch: Path, texts: list[str], slice_bytes: int, escape: bool, last_end: bool
) -> None:
    rows = [json.dumps({"text": t, "id": n}, ensure_ascii=escape).encode() for n, t in enumerate(texts)]
    data = b"\n".join(rows) + (b"\n" if last_end and rows else b"")
    found = read_all(write(scratch, data), slice_bytes=slice_bytes, id_column="id" if texts else None)
    assert found.texts == texts
    assert found.ids == [str(number) for number in range(len(texts))]
    assert found.rejects == {}
    for number, offset in enumerate(found.byte_offsets):
        assert data[offset:].startswith(rows[number])


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("codec", PACK)
@given(texts=some_texts, slice_bytes=st.integers(1, 400), members=st.integers(1, 5))
@settings(max_examples=40)
def test_a_compressed_file_reads_as_the_plain_one(
    scratch: Path, codec: str, texts: list[str], slice_bytes: int, members: int
) -> None:
    data = lines(*texts)
    step = max(1, len(data) // members)
    packed = b"".join(PACK[codec](data[at : at + step]) for at in range(0, len(data), step)) or PACK[codec](
        b""
    )
    plain = read_all(write(scratch, data), slice_bytes=1 << 20)
    found = read_all(write(scratch, packed, f"a.jsonl.{codec}"), slice_bytes=slice_bytes)
    assert found == plain
    assert found.texts == texts


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text":"a"}{"text":"b"}', "not_json"),
        (b'{"text":"a"} {"text":"b"}', "not_json"),
        (b'{"text":"a",}', "not_json"),
        (b"{'text':'a'}", "not_json"),
        (b'{"text":"a', "not_json"),
        (b'{"text":"a\tb"}', "not_json"),  # a control character that is not escaped
        (b'{"text":"\\ud800"}', "not_json"),  # a lone surrogate has no UTF-8
        (b'{"text":"\\udc00\\ud800"}', "not_json"),
        (b'{"text":"a","n":NaN}', "not_json"),
        (b'{"text":"a","n":-Infinity}', "not_json"),
        (b'{"text":"a","n":1e999}', "not_json"),
        (b'{"text":"a","n":01}', "not_json"),
        (b'{"text":"a","n":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not_json"),
        (b'{"text":"caf\xe9"}', "not_utf8"),
        (b'{"text":"a","other":"\xed\xa0\x80"}', "not_utf8"),
        (b'["text"]', "not_object"),
        (b'"text"', "not_object"),
        (b"7", "not_object"),
        (b"null", "not_object"),
        (b'{"other":"a"}', "no_text"),
        (b"{}", "no_text"),
        (b'{"text":null}', "null"),
        (b'{"text":7}', "not_text"),
        (b'{"text":["a"]}', "not_text"),
        (b'{"text":{"a":"b"}}', "not_text"),
        (b'{"text":""}', "empty"),
        (b'{"text":" \\n"}', "blank"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_a_line_that_is_not_a_document_is_a_reject_with_its_reason_and_offset(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    rows = read_all(write(tmp_path, GOOD + line + b"\n" + GOOD), id_column="id")
    assert rows.texts == ["good", "good"]
    assert rows.ids == ["a", "a"]
    assert rows.rejects == {(0, 1): reason}
    assert rows.byte_offsets == [0, len(GOOD), len(GOOD) + len(line) + 1]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b'{"text":"a\\u0000b"}', "a\0b"),
        (b'{"text":"first","text":"second"}', "second"),
        (b'{"text":"\\ud83d\\ude00"}', "\N{GRINNING FACE}"),
        (b'{"text":"\xe2\x80\xa8"}', "\u2028"),  # a line separator does not end a line
        (b'  {"text":"a"} \r', "a"),
        (b'{"text":"a","n":123456789012345678901234567890}', "a"),
        (b'{"text":"\xef\xbb\xbfa"}', "\ufeffa"),
        (b'{"text":"a","m":' + b"[" * 900 + b"]" * 900 + b"}", "a"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_what_json_allows_is_kept_as_it_is(tmp_path: Path, line: bytes, text: str) -> None:
    assert read_all(write(tmp_path, line + b"\n")).texts == [text]


def test_a_byte_order_mark_of_the_file_and_blank_lines_are_not_rows(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + GOOD + b"\n  \r\n\n" + GOOD + b"\n\n"
    rows = read_all(write(tmp_path, data))
    assert (rows.texts, rows.rejects) == (["good", "good"], {})
    assert rows.byte_offsets == [3, 3 + len(GOOD) + 6]


def test_a_file_of_zero_bytes_or_of_blank_lines_has_no_rows(tmp_path: Path) -> None:
    assert read_all(write(tmp_path, b"")).texts == []
    assert read_all(write(tmp_path, b"\n \n")).texts == []


def test_a_nested_field_is_named_by_its_path_and_a_name_with_a_dot_comes_first(tmp_path: Path) -> None:
    rows = [
        {"data": {"text": "nested"}},
        {"data.text": "named", "data": {"text": "nested"}},
        {"data": None},
        {"data": {"text": None}},
        {"data": {}},
        {"data": "flat"},
        {"data": [{"text": "listed"}]},  # a list is not looked into
    ]
    path = write(tmp_path, b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    found = read_all(path, text_column="data.text")
    assert found.texts == ["nested", "named"]
    assert list(found.rejects.values()) == ["null", "null", "no_text", "no_text", "no_text"]


def test_nested_fields_are_among_the_candidates(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"meta": {"story": "x", "n": 1}}\n')
    with pytest.raises(InputError, match=r"--text-column: one of 'meta\.story'"):
        discover([str(path)])


def test_ids_are_text_or_integers_and_anything_else_is_no_id(tmp_path: Path) -> None:
    ids = ["a", 7, None, 1.5, True, ["x"]]
    data = b"".join(json.dumps({"text": "x", "id": identity}).encode() + b"\n" for identity in ids)
    assert read_all(write(tmp_path, data), id_column="id").ids == ["a", "7", None, None, None, None]


@pytest.mark.parametrize("codec", PACK)
def test_a_cut_file_names_its_place_and_the_rows_before_it_stand(tmp_path: Path, codec: str) -> None:
    texts = [f"document {number} " + "x" * number for number in range(2000)]
    data = PACK[codec](lines(*texts[:1000])) + PACK[codec](lines(*texts[1000:]))
    path = write(tmp_path, data[:-20], f"a.jsonl.{codec}")
    found = discover([str(path)])
    (source,) = found.sources
    with pytest.raises(SourceDamage, match=r"ends inside .* rows before that are whole") as caught:
        list(read_slice(source, source.slices[0], found.columns))
    assert str(path) in str(caught.value)
    assert caught.value.intact_rows >= 1000


@pytest.mark.parametrize("codec", PACK)
def test_of_a_damaged_file_only_what_its_checksums_cover_stands(tmp_path: Path, codec: str) -> None:
    first, second = lines("one", "two"), lines("three", "four")
    data = bytearray(PACK[codec](first) + PACK[codec](second))
    data[-6 if codec == "gz" else -1] ^= 1  # in the checksum of the last member or frame
    path = write(tmp_path, bytes(data), f"a.jsonl.{codec}")
    found = discover([str(path)])
    with pytest.raises(SourceDamage) as caught:
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))
    assert caught.value.intact_rows == 2


def test_a_line_over_the_limit_is_one_reject_and_its_bytes_are_never_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 4 << 20
    monkeypatch.setattr(Columns, "max_row_bytes", limit)
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(GOOD + b'{"text": "')
        for _ in range(64):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + GOOD)
    found = discover([str(path)], slice_bytes=1 << 30)
    tracemalloc.start()
    (batch,) = read_slice(found.sources[0], found.sources[0].slices[0], found.columns)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (batch.texts.to_pylist(), batch.rejects) == (["good", None, "good"], {1: "too_large"})
    assert peak < 5 * limit


def test_memory_does_not_follow_the_size_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    row = json.dumps({"text": "0123456789" * 1000}).encode() + b"\n"
    path.write_bytes(zstandard.ZstdCompressor().compress(row * 20_000))  # 200 MB
    found = discover([str(path)])
    rows = 0
    tracemalloc.start()
    for batch in read_slice(found.sources[0], found.sources[0].slices[0], found.columns):
        rows += len(batch.texts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 20_000
    assert peak < 60 << 20


def test_slices_depend_on_the_size_alone(tmp_path: Path) -> None:
    one = discover([str(write(tmp_path, b"\n" * 1000))], slice_bytes=300).sources[0].slices
    other = discover(
        [str(write(tmp_path, GOOD * 30 + b" " * (1000 - 30 * len(GOOD))))], slice_bytes=300
    ).sources[0]
    assert [(part.byte_offset, part.byte_end) for part in one] == [
        (0, 300),
        (300, 600),
        (600, 900),
        (900, 1000),
    ]
    assert one == other.slices


def test_a_file_that_changed_after_planning_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD * 3)
    found = discover([str(path)])
    write(tmp_path, GOOD.replace(b"good", b"evil") * 3)
    with pytest.raises(InputError, match="not the file that was planned"):
        list(read_slice(found.sources[0], found.sources[0].slices[0], found.columns))


def test_a_file_without_one_row_in_its_first_lines_is_refused_with_the_first_problem(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one object a line, but line 0 at byte 0 is not UTF-8"):
        discover([str(write(tmp_path, b'{"text": "\xff"}\n' * 3))])
    with pytest.raises(InputError, match="one element a line: jq -c"):
        discover([str(write(tmp_path, b'[{"text": "a"}]\n'))])
