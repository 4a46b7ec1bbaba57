from __future__ import annotations

import pytest

from headrace.dataeng.printable import printable


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
