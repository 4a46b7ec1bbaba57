"""What would a job give, and how long would it take? Some slices of its sources are really tokenized, into a temporary place.

Slices are chosen by a hash of what they are, so the same job has the same sample. From them to all of it goes the ratio
estimator over the planned bytes of text, with a percentile bootstrap over slices for the intervals (Efron and Tibshirani,
"An Introduction to the Bootstrap", 1993), narrowed by the finite population correction.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.sources.base import Slice
from headrace.dataeng.storage import Store
from headrace.errors import InputError
from headrace.manifests.names import unit_of
from headrace.tokenize.executors.base import Counts
from headrace.tokenize.publish import Job
from headrace.tokenize.tools import Context, Tools
from headrace.tokenize.units import Unit, read_by
from headrace.tokenize.worker import TokenizeUnit

_SAMPLE_BYTES: Final = 16 << 20  # of text: a few seconds by the slowest tokenizer
_FEWEST_SLICES: Final = 12
_MOST_SLICES: Final = 256
_MOST_OF_A_SLICE: Final = 8 << 20  # a compressed file is one slice, however large
_RESAMPLES: Final = 1000
_QUANTITIES: Final = ("documents", "rejected", "tokens", "text_bytes", "stored_bytes", "seconds")


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """An estimate and where it lies nineteen times of twenty."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Of the whole job. seconds: from start to end with `workers` processes on this machine, without publication;
    disk_bytes: what to have free. exact: every slice was in the sample, so that all but the time is known.
    """

    units: int
    slices: int
    sampled_slices: int
    sampled_text_bytes: int
    exact: bool
    documents: Range
    rejected: Range
    tokens: Range
    text_bytes: Range
    stored_bytes: Range
    seconds: Range
    rejects: dict[str, float]
    workers: int
    disk_bytes: int
    notes: tuple[str, ...]


class _EnoughError(Exception):
    """So much of a slice will do."""


def estimate_job(
    job: Job, context_of: Callable[[Store], Context], units: Sequence[Unit], workers: int
) -> Estimate:
    """Tokenizes a sample of the job's slices in this process. Nothing is written but in a temporary directory.

    Raises:
        InputError: there is nothing to tokenize. Otherwise as a job does of a slice.
    """
    slices = [part for source in job.sources for part in source.slices]
    if not slices:
        raise InputError("the sources hold no rows, so there is nothing to estimate")
    chosen = _choose(job, slices)
    rejects = Counter[str]()
    notes: list[str] = []
    planned, rows, text, cut = [], [], 0, 0
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as in a worker, whose speed is to be known
    with tempfile.TemporaryDirectory(prefix="headrace-estimate-") as directory:
        store = Store(Path(directory))
        begun = time.perf_counter()
        tools = Tools(context_of(store))
        measure = _Measure(job, tools, store)
        # Loads and compiles what the first slice would otherwise be charged with.
        measure.run(slices[chosen[-1]], len(chosen))
        start = time.perf_counter() - begun
        for number, index in enumerate(chosen):
            counts, seconds, whole = measure.run(slices[index], number)
            part = max(1, slices[index].text_bytes)
            planned.append(part if whole else min(part, max(1, counts.text_bytes)))
            cut += not whole
            stored = measure.stored_bytes(number) if whole else _plain_bytes(counts, job)
            rows.append(
                [counts.documents, counts.rejected, counts.tokens, counts.text_bytes, stored, seconds]
            )
            rejects.update(counts.rejects)
            text += counts.text_bytes
        notes += tools.take_notes()
    total = sum(max(1, part.text_bytes) for part in slices)
    weights, values = np.array(planned, float), np.array(rows, float)
    exact = len(chosen) == len(slices) and not cut
    ranges = _ranges(weights, values, total, share=1.0 if exact else weights.sum() / total)
    alone = ranges.pop("seconds")
    largest = max(unit.text_bytes for unit in units) / max(1, sum(unit.text_bytes for unit in units))
    speed = max(1 / workers, largest)  # no unit is shared
    if cut:
        notes.append(
            f"{cut:,} slices were read in part, and the size of what is in them is the plan's guess: compressed files are"
        )
    if job.config.dedup:
        notes.append("duplicates are counted as documents: which there are, only all of the corpus can tell")
    return Estimate(
        units=len(units),
        slices=len(slices),
        sampled_slices=len(chosen),
        sampled_text_bytes=text,
        exact=exact,
        **ranges,
        seconds=Range(
            low=start + alone.low * speed,
            likely=start + alone.likely * speed,
            high=start + alone.high * speed,
        ),
        rejects={reason: count * total / weights.sum() for reason, count in sorted(rejects.items())},
        workers=workers,
        disk_bytes=int(ranges["stored_bytes"].high) + 2 * workers * job.config.shard_bytes,
        notes=tuple(dict.fromkeys(notes)),
    )


def _choose(job: Job, slices: Sequence[Slice]) -> list[int]:
    """Positions of the sample, in the order of a hash of what each slice is."""

    def key(index: int) -> bytes:
        return hashlib.sha256(f"{job.sources[slices[index].file].fingerprint}:{index}".encode()).digest()

    chosen: list[int] = []
    size = 0
    for index in sorted(range(len(slices)), key=key)[:_MOST_SLICES]:
        if len(chosen) >= _FEWEST_SLICES and size >= _SAMPLE_BYTES:
            break
        chosen.append(index)
        size += min(_MOST_OF_A_SLICE, slices[index].text_bytes)
    return chosen


@dataclass(frozen=True, slots=True)
class _Measure:
    """Tokenizes slices as a worker does, each as a unit of its own."""

    job: Job
    tools: Tools
    store: Store

    def run(self, part: Slice, number: int) -> tuple[Counts, float, bool]:
        """Counts, seconds, and whether that is all of the slice."""
        last = Counts()

        def report(counts: Counts) -> None:
            nonlocal last
            last = counts
            if counts.text_bytes >= _MOST_OF_A_SLICE:
                raise _EnoughError

        unit = Unit(index=number, slices=(part,))
        task = TokenizeUnit(unit=unit, sources=read_by(unit, self.job.sources))
        begun = time.perf_counter()
        try:
            record = task.run(self.tools, report)
        except _EnoughError:
            return last, time.perf_counter() - begun, False
        (found,) = record.sources
        counts = Counts(
            rows=found.rows,
            documents=found.documents,
            rejected=found.rejected,
            tokens=found.tokens,
            text_bytes=found.text_bytes,
            rejects=record.rejects,
        )
        return counts, time.perf_counter() - begun, True

    def stored_bytes(self, number: int) -> int:
        """Shards and lineage of a slice."""
        return sum(size for name, size in self.store.sizes().items() if unit_of(name) == number)


def _plain_bytes(counts: Counts, job: Job) -> int:
    """What the tokens of a slice that was not finished take without compression, which is the most."""
    return counts.tokens * np.dtype(job.dtype).itemsize


def _ranges(
    weights: NDArray[np.float64], values: NDArray[np.float64], total: int, *, share: float
) -> dict[str, Range]:
    """weights: planned bytes [slices]; values [slices, quantities]; share: of the whole that is in the sample."""
    likely = values.sum(0) / weights.sum() * total
    random = np.random.default_rng(0)
    picks = random.integers(0, len(weights), (_RESAMPLES, len(weights)))
    again = values[picks].sum(1) / weights[picks].sum(1)[:, None] * total
    low, high = np.quantile(again, [0.025, 0.975], axis=0)
    narrow = max(0.0, 1 - share) ** 0.5
    return {
        name: Range(
            low=float(max(0.0, likely[i] - (likely[i] - low[i]) * narrow)),
            likely=float(likely[i]),
            high=float(likely[i] + (high[i] - likely[i]) * narrow),
        )
        for i, name in enumerate(_QUANTITIES)
    }
