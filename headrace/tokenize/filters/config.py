"""Which filters a job has. All of it enters the job's identity, and what is set stands in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import UsageError

_MAX_PLACES: Final = 255


@dataclass(frozen=True, kw_only=True, slots=True)
class Decontamination:
    """Which texts must not be in the corpus, and when a document counts as holding one."""

    places: tuple[str, ...]  # files, directories, globs or URIs of evaluations
    columns: tuple[str, ...] = ()  # with the texts, in all of them; none: the first known name
    ngram: int = 13  # words of a run that no document may share with an evaluation
    share: float = 0.0  # of a document's words, in such runs, at most

    def __post_init__(self) -> None:
        if not 1 <= len(self.places) <= _MAX_PLACES:
            raise UsageError(f"--decontaminate: {len(self.places):,} places; expected 1 to {_MAX_PLACES}")
        if not 2 <= self.ngram <= 1000:
            raise UsageError(
                f"--decontaminate-ngram {self.ngram}: expected 2 to 1,000 words; 8 to 13 are usual"
            )
        if not 0 <= self.share < 1:
            raise UsageError(f"--decontaminate-share {self.share}: expected a share from 0 to below 1")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterConfig:
    """As given on the command line; the default is no filter at all."""

    hook: str | None = None  # module:function, which may change each text or leave it out
    min_chars: int | None = None  # Unicode characters of a document, at least
    max_chars: int | None = None  # and at most
    quality: Mapping[str, float] = field(default_factory=dict)  # thresholds by rule: quality.thresholds_of
    decontamination: Decontamination | None = None

    def __post_init__(self) -> None:
        for option, value in (("--min-chars", self.min_chars), ("--max-chars", self.max_chars)):
            if value is not None and value < 1:
                raise UsageError(f"{option} {value:,}: expected 1 or more")
        if self.min_chars is not None and self.max_chars is not None and self.min_chars > self.max_chars:
            raise UsageError(
                f"--min-chars {self.min_chars:,} is more than --max-chars {self.max_chars:,}: no document is both"
            )
