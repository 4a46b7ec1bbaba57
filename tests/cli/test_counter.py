from __future__ import annotations

import pytest

from headrace.cli.counter import counter


def test_what_is_under_way_is_counted_on_a_terminal_and_nowhere_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with counter(quiet=False) as show:
        show("shards", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with counter(quiet=False) as show:
        show("shards", 1, 1234)
    assert capsys.readouterr().err == "\r1 of 1,234 shards \n"
    with pytest.raises(KeyboardInterrupt), counter(quiet=True):
        raise KeyboardInterrupt
    assert "the same command continues" in capsys.readouterr().err
