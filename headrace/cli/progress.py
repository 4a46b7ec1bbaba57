"""Say on stderr how far a tokenization is: a line that rewrites itself, or now and then a line for a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.tokenize.config import Progress

_LIVE_SECONDS = 0.1
_PLAIN_SECONDS = 10.0


class Reporter:
    """Call it with each Progress; `every` seconds it says so. `live` lines are written over each other."""

    def __init__(self, every: float | None, *, live: bool) -> None:
        self._every, self._live = every, live
        self._begun = time.monotonic()
        self._last = -1e9
        self._width = 0
        self._latest: Progress | None = None
        self._said: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self._latest = progress
        if self._every is not None and time.monotonic() - self._last >= self._every:
            self._say()

    def close(self) -> None:
        """Says how it ended, once."""
        if self._every is not None and self._latest is not None and self._latest is not self._said:
            self._say()
        if self._live and self._width:
            print(file=sys.stderr)
        self._every, self._width = None, 0

    def _say(self) -> None:
        assert self._latest is not None
        self._last, self._said = time.monotonic(), self._latest
        line = describe(self._latest, time.monotonic() - self._begun)
        if self._live:
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)


def reporter(mode: str) -> Reporter:
    """`mode`: auto (live on a terminal, else plain), live, plain or none."""
    if mode == "auto":
        mode = "live" if sys.stderr.isatty() else "plain"
    return Reporter({"live": _LIVE_SECONDS, "plain": _PLAIN_SECONDS, "none": None}[mode], live=mode == "live")


def describe(progress: Progress, seconds: float) -> str:
    """One line: units, documents, rate, tokens, rejects and how long it may still take."""
    worked = progress.text_bytes - progress.resumed_text_bytes
    rate = worked / max(seconds, 1e-3)
    left = max(progress.total_text_bytes - progress.text_bytes, 0)
    eta = _duration(left / rate) if rate > 0 and progress.units_done < progress.units_total else "-"
    return (
        f"units {progress.units_done:,}/{progress.units_total:,}  documents {progress.documents:,}  "
        f"{rate / 1e6:.1f} MB/s  tokens {progress.tokens:,}  rejected {progress.rejected:,}  left {eta}"
    )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
