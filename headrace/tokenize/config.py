"""What a tokenization job is told: one type for what decides the bytes, one for what only decides the speed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import UsageError
from headrace.tokenize.dedup.config import DedupConfig
from headrace.tokenize.filters.config import FilterConfig

ALGORITHM_VERSION: Final = 3  # grows whenever the same inputs and configuration would give other bytes
MIN_SHARD_BYTES: Final = 1 << 10
MAX_SHARD_BYTES: Final = 2**32 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeConfig:
    """All of it enters the job's identity."""

    text_column: str | None = None  # None: the first known name that the files have
    id_column: str | None = None
    tokenizer_recipe: str | None = None  # a JSON file: what a tiktoken rank file does not say
    documents: str = "rows"  # of tables and records; or "files": each file is one
    tfrecord_payload: str = "example"  # or "text": the payload of a record is the text itself
    bos: str = "none"
    eos: str = "auto"
    shard_bytes: int = 64 << 20  # of raw shard, at most
    compression: str = "none"  # or "zstd:LEVEL"
    max_document_bytes: int = 16 << 20  # of text; longer documents are rejected
    filters: FilterConfig = field(default_factory=FilterConfig)
    dedup: DedupConfig = field(default_factory=DedupConfig)

    def __post_init__(self) -> None:
        if not MIN_SHARD_BYTES <= self.shard_bytes <= MAX_SHARD_BYTES:
            raise UsageError(
                f"--shard-bytes {self.shard_bytes:,}: expected {MIN_SHARD_BYTES:,} to {MAX_SHARD_BYTES:,}"
            )
        if self.max_document_bytes < 1:
            raise UsageError(f"--max-document-bytes {self.max_document_bytes:,}: expected 1 or more")
        if self.documents not in ("rows", "files"):
            raise UsageError(f"--documents {self.documents!r}: expected rows or files")
        if self.tfrecord_payload not in ("example", "text"):
            raise UsageError(f"--tfrecord-payload {self.tfrecord_payload!r}: expected example or text")
        match = re.fullmatch(r"none|zstd:(\d{1,2})", self.compression)
        if match is None or (match[1] and not 1 <= int(match[1]) <= 22):
            raise UsageError(f"--compression {self.compression!r}: expected none, zstd or zstd:1 to zstd:22")

    @property
    def zstd_level(self) -> int | None:
        return None if self.compression == "none" else int(self.compression.removeprefix("zstd:"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a job stands; the counts include what open units have done so far."""

    units_done: int
    units_total: int
    rows: int
    documents: int
    rejected: int
    tokens: int
    text_bytes: int
    rejects: Mapping[str, int]  # by reason
    share: float  # of the text as it was planned, 0 to 1
    # What an earlier run had done of it:
    resumed_tokens: int
    resumed_text_bytes: int
    resumed_share: float
    doing: str = "tokenize"  # or "scan": the pass that looks for duplicates, before any token is made


@dataclass(frozen=True, kw_only=True, slots=True)
class Execution:
    """None of it changes a published byte."""

    executor: str = "local"  # processes of this machine; or "ray"
    address: str | None = None  # of a Ray cluster
    workers: int | None = 1  # None: one a core that the executor has
    max_rejects: float = 0.01  # faults, of all rows; above it nothing is published
    quarantine_damage: bool = False  # reject the rows of damaged row groups and records, rather than stop
    tokenizer_backend: str = "auto"  # "fast" also for jobs too small to gain by it; "reference" never
    exact_check: str = "sample"  # or "full": every document is encoded by the definition too
    on_progress: Callable[[Progress], None] | None = None
    on_stop: Callable[[int], None] | None = (
        None  # Ctrl-C was heard; so many units are open and will be finished
    )

    def __post_init__(self) -> None:
        if self.executor not in ("local", "ray"):
            raise UsageError(f"--executor {self.executor!r}: expected local or ray")
        if self.address is not None and self.executor != "ray":
            raise UsageError("--address names a Ray cluster; it goes with --executor ray")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers {self.workers}: expected 1 or more")
        if not 0 <= self.max_rejects <= 1:
            raise UsageError(f"--max-rejects {self.max_rejects}: expected a fraction from 0 to 1")
        if self.tokenizer_backend not in ("auto", "fast", "reference"):
            raise UsageError(
                f"--tokenizer-backend {self.tokenizer_backend!r}: expected auto, fast or reference"
            )
        if self.exact_check not in ("sample", "full"):
            raise UsageError(f"--exact-check {self.exact_check!r}: expected sample or full")


@dataclass(frozen=True, slots=True)
class Share:
    """One of `count` shares of a job, done by a job of its own: the units whose number leaves `index` modulo `count`."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """From "i/n". Raises `UsageError`."""
        match = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text)
        if match is None or not int(match[1]) < int(match[2]):
            raise UsageError(
                f"--shard-of {text!r}: expected i/n with i from 0 to n - 1, for instance 0/16 for the first of 16 jobs"
            )
        return cls(int(match[1]), int(match[2]))

    def has(self, unit: int) -> bool:
        return unit % self.count == self.index
