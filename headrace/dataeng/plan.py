"""The plan: which sample is which sequence, for all time (laws 1, 2, 3; docs/formats/plan.md).

A plan is a value. It opens no shard and keeps no state; `locate` is a pure function of it. World size, ranks,
threads, batch size, caches and time are not in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.mixture import Intervals, check_weight, intervals
from headrace.dataeng.order import EpochOrders
from headrace.dataeng.plan_file import StageRecord, identity, plan_from_bytes, plan_to_bytes
from headrace.dataeng.source import PlanSource
from headrace.dataeng.storage import write_whole
from headrace.errors import MismatchError, UsageError
from headrace.kernels.locate import locate_in_stage, stage_draws
from headrace.kernels.mix import derive_reference
from headrace.manifests.cursor import Cursor

ALGORITHM = 1  # any change to what `locate` returns is a new number; golden orders hold each one
LANES = 960
WINDOW = 8192
MAX_SAMPLE = 1 << 62
_SHARDS_PER_SOURCE = 1 << 31


@dataclass(frozen=True, slots=True)
class Stage:
    """From sample `start` on, sources are drawn in proportion to `weights` (one a source, 0 for unused)."""

    start: int
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Positions:
    """Where samples lie, one entry an id: source int32, epoch int64, shard int32, sequence int64 (in its shard).

    The sample's tokens are [sequence * T, sequence * T + T + 1) of the shard's concatenated documents.
    """

    source: NDArray[np.int32]
    epoch: NDArray[np.int64]
    shard: NDArray[np.int32]
    sequence: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamOrder:
    """What fixes the tokens besides the datasets and the stages; all of it enters the plan's hash.

    sequence_length: T, input tokens a sample; a sample reads T + 1 tokens, the last only as a label.
    seed: names the order. lanes: independent runs the stream is dealt from; the ranks of a world size that
    divides it share no shard. window: sequences shuffled together inside a lane. mask_document_labels: a label
    that is the first token of another document is not trained on.
    """

    sequence_length: int
    seed: int = 0
    lanes: int = LANES
    window: int = WINDOW
    mask_document_labels: bool = True

    def __post_init__(self) -> None:
        bounds = {
            "sequence_length": (1, 1 << 31),
            "seed": (0, (1 << 63) - 1),
            "lanes": (1, 1 << 20),
            "window": (1, 1 << 40),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise UsageError(f"{name} is {value!r}; expected an integer in [{low:,}, {high:,}]")
        if type(self.mask_document_labels) is not bool:
            raise UsageError(f"mask_document_labels is {self.mask_document_labels!r}; expected true or false")


class Plan:
    """An order over datasets. Make one with `create`, `load` or `extend`."""

    def __init__(self, order: StreamOrder, sources: Sequence[PlanSource], stages: Sequence[Stage]) -> None:
        self.order = order
        self.sources = tuple(sources)
        self.stages = tuple(stages)
        self._check()
        length = order.sequence_length
        # A shard of t tokens holds (t - 1) // T sequences: the last token of each is the next one's first input.
        self._sequences = [np.maximum(s.tokens - 1, 0) // length for s in self.sources]
        self.num_sequences = np.array([int(n.sum()) for n in self._sequences], np.int64)
        """Sequences in one epoch of each source: int64 [K]."""
        for source, count in zip(self.sources, self.num_sequences, strict=True):
            if count == 0:
                raise UsageError(
                    f"source {source.name!r}: no shard holds the {length + 1:,} tokens that one sequence of "
                    f"{length:,} needs ({int(source.tokens.sum()):,} tokens in {len(source.tokens):,} shards); "
                    "shorten sequence_length or leave the source out"
                )
        self._keys = [derive_reference(order.seed, int(s.content_hash[:16], 16)) for s in self.sources]
        self._offset = np.uint64(derive_reference(order.seed, 0x4C415454494345))  # "LATTICE"
        self._orders = EpochOrders()
        self._intervals: list[Intervals] = [intervals(stage.weights) for stage in self.stages]
        self._drawn: dict[int, NDArray[np.int64]] = {}
        self._lock = threading.Lock()
        records = [
            StageRecord(
                stage.start,
                tuple(
                    (s.content_hash, w) for s, w in zip(self.sources, stage.weights, strict=False) if w > 0
                ),
            )
            for stage in self.stages
        ]
        self._hashes, self._parts = identity(ALGORITHM, order, self.sources[0].tokenizer, records)

    @classmethod
    def create(
        cls,
        sources: Sequence[PlanSource],
        *,
        sequence_length: int,
        seed: int = 0,
        lanes: int = LANES,
        window: int = WINDOW,
        mask_document_labels: bool = True,
    ) -> Plan:
        """One stage over `sources`, each with its weight.

        Raises:
            UsageError: no source, a name or a dataset given twice, tokenizers that differ, a source too short
                for one sequence, or a number out of range.
        """
        order = StreamOrder(
            sequence_length=sequence_length,
            seed=seed,
            lanes=lanes,
            window=window,
            mask_document_labels=mask_document_labels,
        )
        for source in sources:
            if not isinstance(source, PlanSource):
                raise UsageError(
                    f"expected a PlanSource, found {source!r}; open a dataset with PlanSource.open(uri)"
                )
        return cls(order, sources, [Stage(0, tuple(source.weight for source in sources))])

    def extend(self, start: int, sources: Sequence[PlanSource]) -> Plan:
        """The same plan up to sample `start`, and the mixture of `sources` from there on.

        Sources already in the plan (by content) go on where they stand. Every cursor of this plan at or before
        `start` is a cursor of the extended one.
        """
        known = {source.content_hash: index for index, source in enumerate(self.sources)}
        merged = list(self.sources)
        weights = dict.fromkeys(range(len(merged)), 0.0)
        for source in sources:
            index = known.setdefault(source.content_hash, len(merged))
            if index == len(merged):
                merged.append(source)
            weights[index] = source.weight
        stages = [*self.stages, Stage(start, tuple(weights[index] for index in range(len(merged))))]
        return Plan(self.order, merged, stages)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file and opens its datasets at the versions that have the plan's content, the newest or an older one.

        Raises:
            InputError: not a plan, or no dataset where one should be.
            MismatchError: a dataset has no version with that content any more, or the plan is not its own hash.
        """
        where = os.fspath(path)
        parsed = plan_from_bytes(Path(path).read_bytes(), where, ALGORITHM)
        sources = []
        for record in parsed.sources:
            try:
                source = PlanSource.open(record.uri, name=record.name, version=record.content_hash)
            except MismatchError as error:
                raise MismatchError(
                    f"{where}: dataset {record.name!r}: the plan was made for content {record.content_hash[:16]}…. "
                    f"{error}. Restore that version of the dataset, or make a new plan"
                ) from None
            sources.append(source)
        plan = cls(StreamOrder(**parsed.order), sources, [Stage(*stage) for stage in parsed.stages])
        if plan.hash != parsed.hash:
            raise MismatchError(
                f"{where}: the file says hash {parsed.hash[:16]}…, its content has {plan.hash[:16]}…"
            )
        return plan

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file, whole or not at all."""
        write_whole(Path(path), plan_to_bytes(self, ALGORITHM))

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of everything that fixes a sample's tokens, and nothing else."""
        return self._hashes[-1]

    @property
    def sequence_length(self) -> int:
        return self.order.sequence_length

    @property
    def vocab_size(self) -> int:
        return self.sources[0].tokenizer.vocab_size

    def cursor(self, next_sample: int = 0) -> Cursor:
        return Cursor(next_sample=next_sample, plan_hash=self.hash, parts=self._parts)

    def includes(self, plan_hash: str) -> bool:
        """Whether `plan_hash` is this plan, or one that this plan extends."""
        return plan_hash in self._hashes

    def check(self, cursor: Cursor) -> int:
        """The cursor's next sample id, if the cursor belongs to this plan or to one that this plan extends.

        Raises:
            MismatchError: it does not; the message names what differs.
        """
        if cursor.plan_hash == self.hash:
            return cursor.next_sample
        for stage, prefix in zip(self.stages[1:], self._hashes, strict=False):
            if cursor.plan_hash != prefix:
                continue
            if cursor.next_sample <= stage.start:
                return cursor.next_sample
            raise MismatchError(
                f"the cursor stands at sample {cursor.next_sample:,}, but the plan's new stage starts at "
                f"{stage.start:,}: samples already consumed would change. Append the stage at "
                f"{cursor.next_sample:,} or later"
            )
        told = ", ".join(
            f"{name} (cursor {there}, plan {here})" for name, there, here in self.differences(cursor)
        )
        raise MismatchError(
            f"the cursor belongs to plan {cursor.plan_hash[:16]}…, this is plan {self.hash[:16]}…; they differ in: "
            f"{told or 'a part with no name'}. Use the run's own plan; to change the mixture from here on, append a "
            f"stage at sample {cursor.next_sample:,} to it with Plan.extend"
        )

    def differences(self, cursor: Cursor) -> list[tuple[str, str, str]]:
        """The parts in which the cursor's plan is another one: (name, the cursor's, this plan's), in order of names."""
        return [
            (name, cursor.parts.get(name, "absent"), self._parts.get(name, "absent"))
            for name in sorted({*cursor.parts, *self._parts})
            if cursor.parts.get(name) != self._parts.get(name)
        ]

    def locate(self, sample_ids: NDArray[np.uint64] | NDArray[np.int64] | Sequence[int]) -> Positions:
        """Where the samples lie: any ids in [0, 2**62), in any order, repeats allowed. Thread-safe.

        Raises:
            UsageError: an id outside that range, or not an integer.
        """
        raw = np.asarray(sample_ids)
        if raw.size and raw.dtype.kind not in "iuO":
            raise UsageError(f"sample ids must be integers in [0, 2**62), found {raw.dtype}")
        if raw.size and (int(raw.min()) < 0 or int(raw.max()) >= MAX_SAMPLE):
            raise UsageError(f"sample ids must be in [0, 2**62), found {int(raw.min())} to {int(raw.max())}")
        ids = raw.astype(np.int64).ravel()
        source, epoch = np.empty(len(ids), np.int32), np.empty(len(ids), np.int64)
        position = np.empty(len(ids), np.int64)
        starts = np.array([stage.start for stage in self.stages], np.int64)
        stage_of = np.searchsorted(starts, ids, side="right") - 1
        keys = np.array(self._keys, np.uint64)
        for stage in np.unique(stage_of):
            chosen = np.flatnonzero(stage_of == stage)
            parts = (
                np.empty(len(chosen), np.int32),
                np.empty(len(chosen), np.int64),
                np.empty(len(chosen), np.int64),
            )
            cut = self._intervals[stage]
            locate_in_stage(
                ids[chosen],
                int(starts[stage]),
                self.order.lanes,
                self.order.window,
                self._offset,
                cut.low,
                cut.top,
                cut.used,
                self._drawn_before(int(stage)),
                self.num_sequences,
                keys,
                *parts,
            )
            source[chosen], epoch[chosen], position[chosen] = parts
        shard, sequence = self._resolve(source, epoch, position)
        return Positions(source, epoch, shard, sequence)

    def _resolve(
        self, source: NDArray[np.int32], epoch: NDArray[np.int64], position: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Axis positions to shards, one epoch order at a time."""
        shard, sequence = np.empty(len(source), np.int32), np.empty(len(source), np.int64)
        groups = np.lexsort((epoch, source))
        if len(groups):
            changes = np.flatnonzero((np.diff(source[groups]) != 0) | (np.diff(epoch[groups]) != 0)) + 1
            for chosen in np.split(groups, changes):
                k, e = int(source[chosen[0]]), int(epoch[chosen[0]])
                axis = self._orders.get(k, e, self._sequences[k], self._keys[k])
                shard[chosen], sequence[chosen] = axis.locate(position[chosen])
        return shard, sequence

    def _drawn_before(self, stage: int) -> NDArray[np.int64]:
        """Draws of every lane from every source before `stage`: int64 [L, K]; O(L * K) once a stage."""
        with self._lock:
            if stage not in self._drawn:
                drawn = np.zeros((self.order.lanes, len(self.sources)), np.int64)
                for index in range(stage):
                    cut = self._intervals[index]
                    width = len(cut.low)
                    start, end = self.stages[index].start, self.stages[index + 1].start
                    drawn[:, :width] += stage_draws(
                        start, end, self.order.lanes, self._offset, cut.low, cut.top, cut.used
                    )
                self._drawn[stage] = drawn
            return self._drawn[stage]

    def _check(self) -> None:
        if not self.sources:
            raise UsageError("a plan needs at least one source")
        for attribute in ("name", "content_hash"):
            values = [getattr(source, attribute) for source in self.sources]
            for value in values:
                if values.count(value) > 1:
                    raise UsageError(
                        f"two sources have the {attribute} {value!r}; give each dataset once, with the sum of the "
                        "weights, under a name of its own"
                    )
        first = self.sources[0]
        for source in self.sources:
            check_weight(source.weight, f"source {source.name!r}")
            if source.tokenizer != first.tokenizer:
                raise UsageError(
                    f"sources {first.name!r} and {source.name!r} were made by different tokenizers "
                    f"({first.tokenizer.describe()}; {source.tokenizer.describe()}); one plan takes ids of one "
                    "tokenizer and one document frame: tokenize one of them again"
                )
            if len(source.tokens) >= _SHARDS_PER_SOURCE:
                raise UsageError(
                    f"source {source.name!r} has {len(source.tokens):,} shards; 2**31 is the limit"
                )
        starts = [stage.start for stage in self.stages]
        if starts[:1] != [0] or any(b <= a for a, b in pairwise(starts)):
            raise UsageError(f"stages must start at sample 0 and then ever later, found {starts}")
        if starts[-1] >= MAX_SAMPLE:
            raise UsageError(f"a stage starts at sample {starts[-1]:,}; ids end at 2**62")
