"""Turn one work unit into stored shards, lineage and rejects, and then into the record that says so."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.lineage import Reject, lineage_rows, rejects_file, string_buffers, text_hashes
from headrace.dataeng.mds import Lengths, Tokens
from headrace.dataeng.sources.base import (
    DAMAGED,
    NO_TOKENS,
    NOT_TOKENIZABLE,
    TOO_LARGE,
    Batch,
    Slice,
    SourceDamage,
    read_slice,
)
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.backends import Disagreement, Gate
from headrace.tokenize.damage import SliceDamage, past_damage
from headrace.tokenize.executors.base import Counts, Task
from headrace.tokenize.journal import (
    COUNTED,
    SourceCounts,
    StoredFile,
    UnitRecord,
    files_of,
    is_intact,
    rejects_name,
)
from headrace.tokenize.shard_writer import ShardWriter
from headrace.tokenize.tokenizers import Encoder
from headrace.tokenize.tools import Context, Tools

_ENCODE_BYTES: Final = 1 << 20  # of text at a time: bounds what the tokenizer holds
_REPORT_SECONDS: Final = 0.25
_MAX_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeUnit(Task):
    """`earlier`: the record of an earlier run, to be believed only after a look at its files."""

    earlier: UnitRecord | None = None

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> UnitRecord:
        """Does the unit unless an earlier run did and all its files are as they were written.

        Damage is looked at again: what was met then may have been on the way, or has been restored since; and it is
        for this run to say what is done about it.
        """
        earlier, context = self.earlier, tools.context
        believed = earlier is not None and DAMAGED not in earlier.rejects
        if (
            earlier is not None
            and believed
            and all(is_intact(context.store, file) for file in files_of(earlier))
        ):
            return earlier
        by_reference: set[int] = set()

        def attempt(damaged: Mapping[Slice, int]) -> UnitRecord:
            while True:
                gates = {
                    file: Gate(
                        tools.encoder.reference,
                        None if file in by_reference else tools.fast,
                        source.fingerprint,
                        full=context.exact_check_full,
                    )
                    for file, source in self.sources.items()
                }
                try:
                    return _Attempt(context, tools.encoder, tools.pool, gates, self, report).run(damaged)
                except _FileDisagreement as error:
                    # Its documents may already be in a shard, so begin again, with the definition for this file.
                    by_reference.add(error.file)
                    name = self.sources[error.file].name
                    tools.note(f"{name}: {error}; tokenizers encodes unit {self.unit.index} of this file")

        record = past_damage(self.unit, attempt, quarantine=context.quarantine_damage)
        tools.journal.write(record)
        return record


class _FileDisagreement(Exception):
    """A fast backend that is not to be used for a file."""

    def __init__(self, message: str, file: int) -> None:
        super().__init__(message)
        self.file = file


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """Documents that are encoded together: consecutive in one slice, as Arrow columns without nulls."""

    number: int  # of the slice in the unit
    part: Slice
    rows: NDArray[np.int64]
    texts: Any
    ids: Any
    byte_offsets: NDArray[np.int64] | None
    first: bool  # holds the first document of its file in this unit


@dataclass(frozen=True, kw_only=True, slots=True)
class _EncodedGroup:
    group: _Group
    tokens: Tokens
    lengths: Lengths
    text_bytes: NDArray[np.int64]
    text_hash: Any
    failed: tuple[int, ...]


@dataclass(slots=True)
class _Tally:
    """Counts of one file in the making, named as in Counts."""

    rows: int = 0
    documents: int = 0
    rejected: int = 0
    tokens: int = 0
    text_bytes: int = 0


@dataclass(slots=True)
class _Attempt:
    """One pass over the rows of a unit.

    This thread reads and puts documents into shards, in order; others encode; the shards' own thread stores them.
    """

    context: Context
    encoder: Encoder
    pool: ThreadPoolExecutor
    gates: dict[int, Gate]
    task: TokenizeUnit
    report: Callable[[Counts], None]
    rejects: list[Reject] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of the rejects
    tallies: dict[int, _Tally] = field(default_factory=dict)
    reported: float = 0.0

    def run(self, damaged: Mapping[Slice, int]) -> UnitRecord:
        """`damaged`: slices of which only so many first rows are to be used."""
        context, unit = self.context, self.task.unit
        self.tallies = {file: _Tally() for file in unit.files}
        shards = ShardWriter(
            context.store,
            unit.index,
            dtype=context.dtype,
            shard_bytes=context.config.shard_bytes,
            zstd_level=context.config.zstd_level,
        )
        waiting: deque[Future[_EncodedGroup]] = deque()
        try:
            with shards:
                for group in self._groups(damaged):
                    waiting.append(self.pool.submit(self._encode, group))
                    if len(waiting) > context.threads + 1:
                        self._add(shards, waiting.popleft().result())
                while waiting:
                    self._add(shards, waiting.popleft().result())
                return self._record(shards.finish())
        finally:
            for future in waiting:  # of an attempt that is given up
                future.cancel()
            wait(waiting)

    def _groups(self, damaged: Mapping[Slice, int]) -> Iterator[_Group]:
        begun: set[int] = set()
        for number, part in enumerate(self.task.unit.slices):
            for batch in self._batches(number, part, damaged.get(part)):
                for positions in self._kept(number, part, batch):
                    yield _Group(
                        number=number,
                        part=part,
                        rows=batch.first_row + positions,
                        texts=_take(batch.texts, positions),
                        ids=None if batch.ids is None else _take(batch.ids, positions),
                        byte_offsets=None if batch.byte_offsets is None else batch.byte_offsets[positions],
                        first=part.file not in begun,
                    )
                    begun.add(part.file)

    def _batches(self, number: int, part: Slice, intact_rows: int | None) -> Iterator[Batch]:
        """The batches of a slice; of a damaged one the intact rows, and a reject for each of the others, or where their
        number is unknown one for all.
        """
        left = part.num_rows if intact_rows is None else intact_rows
        if left != 0:
            batches = read_slice(self.task.sources[part.file], part, self.context.columns)
            while True:
                try:
                    batch = next(batches, None)
                except SourceDamage as error:
                    raise SliceDamage(str(error), part, error.intact_rows) from None
                if batch is None:
                    break
                if intact_rows is None:
                    yield batch
                    continue
                left = intact_rows - (batch.first_row - part.first_row)
                yield batch.first(left)
                if left <= len(batch.texts):
                    break
        if intact_rows is not None:
            begin = part.first_row + intact_rows
            end = begin + 1 if part.num_rows is None else part.first_row + part.num_rows
            offset = None if intact_rows else part.byte_offset
            self._reject(number, part, np.arange(begin, end), offset, DAMAGED)
            self.tallies[part.file].rows += end - begin

    def _kept(self, number: int, part: Slice, batch: Batch) -> Iterator[NDArray[np.int64]]:
        """Notes what is not a document, and yields the positions of the others in groups of about _ENCODE_BYTES."""
        self.tallies[part.file].rows += len(batch.texts)
        for position, reason in sorted(batch.rejects.items()):
            self._reject(number, part, np.array([batch.first_row + position]), _at(batch, position), reason)
        offsets, _ = string_buffers(batch.texts)
        sizes = np.diff(offsets)
        wanted = np.ones(len(sizes), bool)
        wanted[list(batch.rejects)] = False
        for position in np.flatnonzero(wanted & (sizes > self.context.config.max_document_bytes)).tolist():
            self._reject(
                number, part, np.array([batch.first_row + position]), _at(batch, position), TOO_LARGE
            )
            wanted[position] = False
        positions = np.flatnonzero(wanted)
        ends = np.cumsum(sizes[positions])
        begin = 0
        while begin < len(positions):
            before = int(ends[begin - 1]) if begin else 0
            # A longer text is a group of its own.
            end = max(begin + 1, int(np.searchsorted(ends, before + _ENCODE_BYTES, side="right")))
            yield positions[begin:end]
            begin = end

    def _encode(self, group: _Group) -> _EncodedGroup:
        offsets, data = string_buffers(group.texts)
        texts = group.texts.to_numpy(zero_copy_only=False).tolist()
        try:
            encoded = self.gates[group.part.file].encode(
                texts, group.rows, data[offsets[0] : offsets[-1]], first=group.first
            )
        except Disagreement as error:
            raise _FileDisagreement(str(error), group.part.file) from None
        tokens, lengths = self.encoder.frame(encoded)
        return _EncodedGroup(
            group=group,
            tokens=tokens,
            lengths=lengths,
            text_bytes=np.diff(offsets),
            text_hash=text_hashes(group.texts),
            failed=encoded.failed,
        )

    def _add(self, shards: ShardWriter, done: _EncodedGroup) -> None:
        group, tokens, lengths = done.group, done.tokens, done.lengths
        source, part = self.task.sources[group.part.file].name, group.part
        fits = shards.fits_a_shard(lengths)
        keep = fits & (lengths > 0)
        rows, byte_offsets, ids = group.rows, group.byte_offsets, group.ids
        text_bytes, text_hash = done.text_bytes, done.text_hash
        if not keep.all():
            for position in np.flatnonzero(~keep).tolist():
                reason = NO_TOKENS if fits[position] else TOO_LARGE
                reason = NOT_TOKENIZABLE if position in done.failed else reason
                offset = None if byte_offsets is None else int(byte_offsets[position])
                self._reject(group.number, part, rows[position : position + 1], offset, reason)
            tokens, lengths = tokens[np.repeat(keep, lengths)], lengths[keep]
            rows, text_bytes = rows[keep], text_bytes[keep]
            byte_offsets = None if byte_offsets is None else byte_offsets[keep]
            kept = np.flatnonzero(keep)
            text_hash, ids = text_hash.take(kept), None if ids is None else ids.take(kept)
        tally = self.tallies[part.file]
        tally.documents += len(lengths)
        tally.tokens += len(tokens)
        tally.text_bytes += int(text_bytes.sum())
        if len(lengths):
            lineage = lineage_rows(
                source=source,
                row_group=part.row_group,
                row=rows,
                byte_offset=byte_offsets,
                document_id=ids,
                text_bytes=text_bytes,
                tokens=lengths,
                text_hash=text_hash,
            )
            shards.add(tokens, lengths, lineage)
        if (now := time.monotonic()) - self.reported >= _REPORT_SECONDS:
            self.reported = now
            self.report(self._so_far())

    def _reject(
        self, number: int, part: Slice, rows: NDArray[np.int64], byte_offset: int | None, reason: str
    ) -> None:
        source = self.task.sources[part.file].name
        self.rejects += [
            Reject(number, row, source, part.row_group, byte_offset, reason) for row in rows.tolist()
        ]
        self.tallies[part.file].rejected += len(rows)
        self.reasons[reason] += len(rows)

    def _so_far(self) -> Counts:
        sums = {name: sum(getattr(tally, name) for tally in self.tallies.values()) for name in COUNTED}
        return Counts(**sums, rejects=dict(self.reasons))

    def _record(self, shards: list[ShardRow]) -> UnitRecord:
        unit, rejects = self.task.unit.index, sorted(self.rejects)
        stored = None
        if rejects:
            data = rejects_file(rejects)
            stored = StoredFile(name=rejects_name(unit), sha256=sha256_hex(data))
            self.context.store.write(stored.name, data)
        return UnitRecord(
            unit=unit,
            shards=tuple(shards),
            sources=tuple(
                SourceCounts(file=file, **{name: getattr(tally, name) for name in COUNTED})
                for file, tally in self.tallies.items()
            ),
            rejects=dict(sorted(self.reasons.items())),
            rejects_file=stored,
            examples=tuple(reject.describe() for reject in rejects[:_MAX_EXAMPLES]),
        )


def _at(batch: Batch, position: int) -> int | None:
    return None if batch.byte_offsets is None else int(batch.byte_offsets[position])


def _take(column: Any, positions: NDArray[np.int64]) -> Any:
    """The values at ascending positions; a view if there are no gaps."""
    first, count = int(positions[0]), len(positions)
    if int(positions[-1]) - first + 1 == count:
        return column.slice(first, count)
    return column.take(positions)
