"""Lists of documents for a takedown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.dataeng.lineage import SCHEMA
from headrace.errors import InputError
from headrace.tokenize.document_list import DocumentList, read_document_list
from tests.tokenize.test_predicate import TABLE


def selected(listed: DocumentList) -> list[int]:
    found = listed.selects(TABLE.select(listed.columns)).to_pylist()
    return [number for number, one in enumerate(found) if one]


def written(path: Path, entries: list[dict[str, Any]]) -> list[DocumentList]:
    """The same list as JSON lines and as Parquet."""
    lines = [{k: v.hex() if isinstance(v, bytes) else v for k, v in entry.items()} for entry in entries]
    (path / "list.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    schema = pa.schema(
        [field.with_nullable(True) for field in SCHEMA if any(field.name in entry for entry in entries)]
    )
    pq.write_table(pa.Table.from_pylist(entries, schema), path / "list.parquet")
    return [read_document_list(str(path / name)) for name in ("list.jsonl", "list.parquet")]


@pytest.mark.parametrize(
    ("entries", "expected", "missing"),
    [
        ([{"document_id": "it's"}, {"document_id": "no"}], [2], [{"document_id": "no"}]),
        ([{"text_hash": bytes([1] * 16)}, {"text_hash": bytes(15) + b"x"}], [1], [{"text_hash": "00" * 15 + "78"}]),
        (
            [{"source": "web/x.parquet", "row_group": 0, "row": 0}, {"source": "web/y/z.jsonl", "row": 7}],
            [0, 1],
            [],
        ),
        # Without the row group that lineage has it is another place, and taking down too much is worse than telling.
        (
            [{"source": "books\n?*", "row": 3}, {"document_id": "a"}],
            [0],
            [{"source": "books\n?*", "row_group": None, "row": 3}],
        ),
    ],
)  # fmt: skip
def test_a_list_selects_what_it_names_and_says_what_was_not_found(
    entries: list[dict[str, Any]], expected: list[int], missing: list[dict[str, Any]], tmp_path: Path
) -> None:
    both = written(tmp_path, entries)
    assert both[0].digest == both[1].digest
    for listed in both:
        assert (selected(listed), listed.not_found(), len(listed)) == (expected, missing, 2)


@pytest.mark.parametrize("others", [0, 100], ids=["short", "longer than what it is held against"])
def test_a_list_of_any_length_selects_what_it_names(others: int) -> None:
    entries: list[dict[str, Any]] = [{"document_id": "a"}, {"text_hash": "01" * 16}]
    entries += [{"source": "books\n?*", "row_group": 2, "row": 3}, {"source": "books\n?*", "row": 3}]
    for number in range(others):
        entries += [{"document_id": f"{number}"}, {"text_hash": f"{number + 256:032x}"}]
        entries.append({"source": f"{number}", "row": number})
    listed = DocumentList(iter(entries), "list")
    assert selected(listed) == [0, 1, 2]
    assert len(listed.not_found()) == 1 + 3 * others


def test_lines_of_text_are_ids_and_their_order_does_not_matter(tmp_path: Path) -> None:
    for name, text in (("a", "a\nit's\n"), ("b", "\ufeffit's\r\n\r\na\r\n\r\na")):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    a, b = (read_document_list(str(tmp_path / name)) for name in "ab")
    assert selected(a) == selected(b) == [0, 2]
    assert a.digest == b.digest


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "names no document"),
        (b"\n\n", "names no document"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"document_id": 5}', "document_id is '5'"),
        (b'{"source": "a", "row": 1, "rows": 2}', "rows is 2; give each row"),
        (b'{"source": "a"}', "entry 1: names no document"),
        (b'{"source": "a", "row": true}', "row is 'True'"),
        (b'{"text_hash": "abc"}', "32 hexadecimal digits"),
        (b'{"document_id": "a"}\n{broken', "entry 2"),
        (b"PAR1 or not", "not a Parquet file"),
    ],
)
def test_what_is_no_list_is_refused_with_its_reason(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_document_list(str(tmp_path / "list"))
