"""Say on stderr how far a tokenization is: three lines that rewrite themselves, or now and then a line for a log.

Three lines need no library: docs/decisions/0050-terminal.md has what was weighed. There are no colours to turn off.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from headrace.cli.terminal import clip, duration

if TYPE_CHECKING:
    from headrace.tokenize.config import Progress

_LIVE_SECONDS = 0.1
_PLAIN_SECONDS = 10.0
_RECENT_SECONDS = 10.0
_BAR = 30
_SHOWN_REASONS = 6


class Rates:
    """How fast: since the begin, and of late. What an earlier run had done is not called speed."""

    def __init__(self, now: float) -> None:
        self._begun = now
        self._seen: deque[tuple[float, int]] = deque([(now, 0)])
        self.seconds = self.text_bytes = self.recent_text_bytes = self.tokens = 0.0  # the rates: a second
        self.left: float | None = None  # seconds, or unknown

    def note(self, progress: Progress, now: float) -> None:
        worked = progress.text_bytes - progress.resumed_text_bytes
        self.seconds = now - self._begun
        elapsed = max(self.seconds, 1e-3)
        self.text_bytes = worked / elapsed
        self.tokens = (progress.tokens - progress.resumed_tokens) / elapsed
        while len(self._seen) > 1 and self._seen[1][0] <= now - _RECENT_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        self.recent_text_bytes = max(0, worked - before) / max(now - since, 1e-3)
        if now - self._seen[-1][0] >= _RECENT_SECONDS / 20:
            self._seen.append((now, worked))
        gained = progress.share - progress.resumed_share
        self.left = elapsed * (1 - progress.share) / gained if gained > 0 else None


class Reporter:
    """Call it with each Progress; `every` seconds it says so (None: never). `live` lines are written over each other."""

    def __init__(self, every: float | None, *, live: bool) -> None:
        self._every, self._live, self._mode_is_none = every, live, every is None
        self._begun = time.monotonic()
        self._rates = Rates(self._begun)
        self._last = -1e9
        self._lines = 0  # on the screen
        self._latest: Progress | None = None
        self._said: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        if self._latest is not None and self._latest.doing != progress.doing:  # the next pass
            if self._every is not None and self._latest is not self._said:
                self._say()
            self._rates, self._lines, self._last = Rates(time.monotonic()), 0, -1e9
        self._latest = progress
        if self._every is not None and time.monotonic() - self._last >= self._every:
            self._say()

    def say(self, text: str) -> None:
        """A line that stays; what follows is drawn below it."""
        print(f"headrace: {text}", file=sys.stderr, flush=True)
        self._lines = 0

    def close(self) -> None:
        """Says how it ended, once."""
        if self._every is not None and self._latest is not None and self._latest is not self._said:
            self._say()
        self._every, self._lines = None, 0

    def accounts(self) -> None:
        """What became of every row that was read, where a run ends before its table; also if nothing else is shown."""
        if self._latest is not None:
            now = self._latest
            open_rows = now.rows - now.documents - now.rejected
            self.say(
                f"{now.rows:,} rows were read = {now.documents:,} documents + {now.rejected:,} rejected"
                + (f" + {open_rows:,} under way" if open_rows else "")
            )

    def summary(self) -> None:
        """How fast this run was, start-up and publication included."""
        if self._latest is None or self._mode_is_none:
            return
        rates = Rates(self._begun)
        rates.note(self._latest, time.monotonic())
        text = f"{rates.text_bytes / 1e6:,.1f} MB/s of text, " if _has_text(self._latest) else ""
        print(
            f"took {duration(rates.seconds)}: {text}{rates.tokens / 1e6:,.2f} M tokens/s, start and publication included",
            file=sys.stderr,
        )

    def _say(self) -> None:
        assert self._latest is not None
        self._last, self._said = time.monotonic(), self._latest
        self._rates.note(self._latest, self._last)
        if not self._live:
            print(plain_line(self._latest, self._rates), file=sys.stderr, flush=True)
            return
        # A line that wraps would be two, and the cursor would go up too few.
        width = shutil.get_terminal_size().columns - 1
        lines = [clip(line, width) for line in live_lines(self._latest, self._rates)]
        up = f"\x1b[{self._lines}A" if self._lines else ""
        print(up + "".join(f"\r{line}\x1b[K\n" for line in lines), end="", file=sys.stderr, flush=True)
        self._lines = len(lines)


def reporter(mode: str) -> Reporter:
    """`mode`: auto (live on a terminal that can move its cursor, else plain), live, plain or none."""
    if mode == "auto":
        able = sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")
        mode = "live" if able else "plain"
    return Reporter({"live": _LIVE_SECONDS, "plain": _PLAIN_SECONDS, "none": None}[mode], live=mode == "live")


def live_lines(progress: Progress, rates: Rates) -> list[str]:
    """For people."""
    filled = round(_BAR * min(progress.share, 1.0))
    left = "-" if rates.left is None else duration(rates.left)
    reasons = sorted(progress.rejects.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = ", ".join(f"{count:,} {reason}" for reason, count in reasons[:_SHOWN_REASONS])
    more = ", ..." if len(reasons) > _SHOWN_REASONS else ""
    doing = "" if progress.doing == "tokenize" else f"{progress.doing}: "
    far = (
        f"{doing}[{'#' * filled}{'.' * (_BAR - filled)}] {progress.share:4.0%}  {duration(rates.seconds)} gone, {left} left  "
        f"units {progress.units_done:,}/{progress.units_total:,}"
    )
    text = f"{rates.recent_text_bytes / 1e6:,.1f} MB/s of text ({rates.text_bytes / 1e6:,.1f} in all)  "
    fast = (
        f"{progress.documents:,} documents  {progress.tokens:,} tokens  {text if _has_text(progress) else ''}"
        f"{rates.tokens / 1e6:,.2f} M tokens/s"
    )
    return [far, fast, f"{progress.rejected:,} rejected" + (f": {shown}{more}" if shown else "")]


def _has_text(progress: Progress) -> bool:
    """Adopted tokens have none."""
    return progress.text_bytes > 0 or progress.tokens == 0


def plain_line(progress: Progress, rates: Rates) -> str:
    """For logs and programs: `progress`, then key=value, without spaces in either."""
    values = {
        "doing": progress.doing,
        "elapsed_s": f"{rates.seconds:.1f}",
        "left_s": "-" if rates.left is None else f"{rates.left:.0f}",
        "share": f"{progress.share:.4f}",
        "units": f"{progress.units_done}/{progress.units_total}",
        "rows": progress.rows,
        "documents": progress.documents,
        "tokens": progress.tokens,
        "text_bytes": progress.text_bytes,
        "mb_per_s": f"{rates.text_bytes / 1e6:.2f}",
        "recent_mb_per_s": f"{rates.recent_text_bytes / 1e6:.2f}",
        "tokens_per_s": f"{rates.tokens:.0f}",
        "rejected": progress.rejected,
        **{f"rejected.{reason}": count for reason, count in sorted(progress.rejects.items())},
    }
    return "progress " + " ".join(f"{key}={value}" for key, value in values.items())
