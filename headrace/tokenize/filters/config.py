"""Which filters a job has. All of it enters the job's identity, and what is set stands in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    """As given on the command line; the default is no filter at all."""

    hook: str | None = None  # module:function, which may change each text or leave it out
    min_chars: int | None = None  # Unicode characters of a document, at least
    max_chars: int | None = None  # and at most
    quality: Mapping[str, float] = field(default_factory=dict)  # thresholds by rule: quality.thresholds_of

    def __post_init__(self) -> None:
        for option, value in (("--min-chars", self.min_chars), ("--max-chars", self.max_chars)):
            if value is not None and value < 1:
                raise UsageError(f"{option} {value:,}: expected 1 or more")
        if self.min_chars is not None and self.max_chars is not None and self.min_chars > self.max_chars:
            raise UsageError(
                f"--min-chars {self.min_chars:,} is more than --max-chars {self.max_chars:,}: no document is both"
            )
