from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.terminal import clip, duration, printable, table, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain été 水車", "plain été 水車"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\r\nb", "a\\r\\nb"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("\x9b31m", "\\x9b31m"),
        ("two\u2028lines", "two\\u2028lines"),
        ("lone \ud800", "lone \\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_lines_and_tabs_of_a_document_stay() -> None:
    assert printable("a\n\tb\r\x00", lines=True) == "a\n\tb\\r\\x00"


@given(st.text(), st.integers(0, 30))
def test_a_clipped_line_fits_whatever_is_in_it(text: str, columns: int) -> None:
    line = clip(text, columns)
    assert width(line) <= columns
    assert printable(line) == line
    if width(printable(text)) <= columns:
        assert line == printable(text)


def test_durations_and_tables_read_as_people_write_them() -> None:
    assert [duration(s) for s in (0, 59.6, 3723)] == ["0:00", "1:00", "1:02:03"]
    assert table([("a", "1"), ("longer", "2"), ("", "3")]) == "a       1\nlonger  2\n        3"
