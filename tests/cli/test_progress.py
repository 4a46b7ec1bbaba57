from __future__ import annotations

import pytest

from headrace.cli.progress import describe, reporter
from headrace.tokenize.config import Progress


def progress(units_done: int, text_bytes: int) -> Progress:
    return Progress(
        units_done=units_done,
        units_total=4,
        rows=1_010,
        documents=1_000,
        rejected=10,
        tokens=2_000_000,
        text_bytes=text_bytes,
        total_text_bytes=20_000_000,
        resumed_text_bytes=4_000_000,
    )


def test_a_line_says_how_far_how_fast_and_how_long() -> None:
    line = describe(progress(1, 8_000_000), seconds=2.0)
    assert line == ("units 1/4  documents 1,000  2.0 MB/s  tokens 2,000,000  rejected 10  left 0:06")


def test_what_an_earlier_run_did_is_not_called_speed() -> None:
    assert "  0.0 MB/s" in describe(progress(1, 4_000_000), seconds=2.0)


def test_plain_mode_writes_whole_lines_and_the_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter("plain")
    show(progress(1, 5_000_000))
    show(progress(4, 20_000_000))
    show.close()
    show.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line[:9] for line in lines] == ["units 1/4", "units 4/4"]


def test_live_mode_overwrites_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter("live")
    show(progress(1, 5_000_000))
    show(progress(4, 20_000_000))
    show.close()
    shown = capsys.readouterr().err
    assert shown.count("\r") == 2
    assert shown.endswith("\n")


def test_none_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter("none")
    show(progress(1, 5_000_000))
    show.close()
    assert capsys.readouterr().err == ""
