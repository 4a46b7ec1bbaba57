from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.terminal import clip, duration, table, width
from headrace.dataeng.printable import printable


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
