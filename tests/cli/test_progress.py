from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from headrace.cli.progress import Rates, live_lines, plain_line, reporter
from headrace.tokenize.config import Progress

SEEN = Progress(
    units_done=1,
    units_total=4,
    rows=1_010,
    documents=1_000,
    rejected=10,
    tokens=2_000_000,
    text_bytes=8_000_000,
    rejects={"null": 3, "blank": 7},
    share=0.4,
    resumed_tokens=1_000_000,
    resumed_text_bytes=4_000_000,
    resumed_share=0.2,
)


def rates(progress: Progress, seconds: float) -> Rates:
    found = Rates(0.0)
    found.note(progress, seconds)
    return found


def test_a_plain_line_is_keys_and_values_that_a_program_can_read() -> None:
    word, *pairs = plain_line(SEEN, rates(SEEN, 2.0)).split(" ")
    assert word == "progress"
    assert dict(pair.split("=") for pair in pairs) == {
        "doing": "tokenize",
        "elapsed_s": "2.0",
        "left_s": "6",
        "share": "0.4000",
        "units": "1/4",
        "rows": "1010",
        "documents": "1000",
        "tokens": "2000000",
        "text_bytes": "8000000",
        "mb_per_s": "2.00",
        "recent_mb_per_s": "2.00",
        "tokens_per_s": "500000",
        "rejected": "10",
        "rejected.blank": "7",
        "rejected.null": "3",
    }


def test_live_lines_say_how_far_how_fast_how_long_and_why_rows_were_rejected() -> None:
    assert live_lines(SEEN, rates(SEEN, 2.0)) == [
        "[############..................]  40%  0:02 gone, 0:06 left  units 1/4",
        "1,000 documents  2,000,000 tokens  2.0 MB/s of text (2.0 in all)  0.50 M tokens/s",
        "10 rejected: 7 blank, 3 null",
    ]


def test_what_an_earlier_run_did_is_not_called_speed() -> None:
    resumed = replace(SEEN, tokens=1_000_000, text_bytes=4_000_000, share=0.2)
    found = rates(resumed, 2.0)
    assert (found.text_bytes, found.tokens, found.left) == (0, 0, None)
    assert " left_s=- " in plain_line(resumed, found)


def test_the_recent_rate_forgets_what_was_long_ago() -> None:
    found = Rates(0.0)
    for second in range(1, 31):  # 1 MB/s for 15 seconds, then 3
        worked = 1_000_000 * (second if second <= 15 else 15 + 3 * (second - 15))
        found.note(replace(SEEN, text_bytes=4_000_000 + worked), float(second))
    assert found.recent_text_bytes == pytest.approx(3_000_000)
    assert found.text_bytes == pytest.approx(2_000_000)


def test_plain_mode_writes_whole_lines_and_the_last_state(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter("plain")
    show(SEEN)
    show(replace(SEEN, units_done=4))
    show.close()
    show.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" units=")[1][:3] for line in lines] == ["1/4", "4/4"]
    assert not any("\x1b" in line or "\r" in line for line in lines)


def test_a_pass_before_the_tokenizer_has_a_name_an_end_and_a_rate_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = reporter("plain")
    scanning = replace(SEEN, doing="scan", tokens=0)
    show(scanning)
    show(replace(scanning, units_done=4))
    show(replace(SEEN, resumed_tokens=2_000_000, resumed_text_bytes=8_000_000))
    show.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[1] for line in lines] == ["doing=scan", "doing=scan", "doing=tokenize"]
    assert " units=4/4 " in lines[1]
    assert " mb_per_s=0.00 " in lines[2]
    assert live_lines(scanning, rates(scanning, 2.0))[0].startswith("scan: [#")


def test_live_mode_rewrites_its_lines_and_never_wraps_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show = reporter("live")
    show(SEEN)
    show(replace(SEEN, units_done=4))
    show.close()
    shown = capsys.readouterr().err
    assert shown.count("\x1b[3A") == 1, "up over the three lines, once"
    lines = shown.replace("\x1b[3A", "").replace("\x1b[K", "").replace("\r", "").splitlines()
    assert len(lines) == 6
    assert max(map(len, lines)) == 39


def test_the_summary_tells_the_rate_and_none_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter("plain")
    show(SEEN)
    show.close()
    capsys.readouterr()
    show.summary()
    assert "MB/s of text, " in capsys.readouterr().err
    show = reporter("none")
    show(SEEN)
    show.close()
    show.summary()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("term", "escapes"), [("xterm-256color", True), ("dumb", False), ("", False)])
def test_auto_is_live_only_where_a_cursor_can_move(
    term: str, escapes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", term)
    reporter("auto")(SEEN)
    assert ("\x1b" in terminal.getvalue()) is escapes


def test_of_adopted_tokens_no_rate_of_text_is_shown() -> None:
    adopted = replace(SEEN, text_bytes=0, resumed_text_bytes=0)
    assert "MB/s of text" in live_lines(SEEN, rates(SEEN, 2.0))[1]
    assert "text" not in live_lines(adopted, rates(adopted, 2.0))[1]
