"""Turn one work unit into stored shards, lineage and rejects, and then into the record that says so.

Runs in a spawned process, which takes units over a pipe until it is told that there are no more, and which ends at
once when its parent does: two runs never write to one dataset.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
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
    Columns,
    Slice,
    SourceDamage,
    SourceFile,
    read_slice,
)
from headrace.dataeng.storage import Store
from headrace.errors import DamageError, HeadraceError, InputError, MissingExtra
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import TokenizerId
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.backends import Disagreement, Fast, Gate, fast_backend
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import (
    COUNTED,
    Journal,
    SourceCounts,
    StoredFile,
    UnitRecord,
    files_of,
    is_intact,
    rejects_name,
)
from headrace.tokenize.shard_writer import ShardWriter
from headrace.tokenize.tokenizers import Encoder, load
from headrace.tokenize.units import Unit

_ENCODE_BYTES: Final = 1 << 20  # of text at a time: bounds what the tokenizer holds
_REPORT_SECONDS: Final = 0.25
_MAX_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What every worker of a job needs, once."""

    store: Store
    tokenizer: bytes
    identity: TokenizerId
    columns: Columns
    config: TokenizeConfig
    dtype: str
    quarantine_damage: bool
    threads: int = 1  # that encode, in each process
    fast_tokenizer: bool = False
    exact_check_full: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One unit, the files it reads, and the record of an earlier run, to be believed only after a look at its files."""

    unit: Unit
    sources: dict[int, SourceFile]
    earlier: UnitRecord | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What an open unit has done so far."""

    rows: int = 0
    documents: int = 0
    rejected: int = 0
    tokens: int = 0
    text_bytes: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class Done:
    """`notes` are for people: which tokenizer was at work, and why. They are in no file."""

    record: UnitRecord
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A deliberate error (`kind` is its class), or with no kind a traceback."""

    kind: type[HeadraceError] | None
    message: str


Report = Counts | Done | Failed


def main(connection: Connection, context: Context) -> None:
    """The process: Task or None (the end) comes in; Counts, and for each Task one Done or Failed, go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the pool had it from the start
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # our own threads encode, as many as the job was given
    try:
        runner = UnitRunner(context)
        gc.freeze()  # what is loaded by now stays: no collection need look at it again
        while (task := connection.recv()) is not None:
            record = runner.run(task, connection.send)
            connection.send(Done(record, runner.take_notes()))
    except HeadraceError as error:
        # Told by a message alone, which is how all but MissingExtra can be raised again.
        ours = (k for k in type(error).__mro__ if k.__module__ == HeadraceError.__module__)
        kind = next(k for k in ours if k is not MissingExtra)
        connection.send(Failed(kind, str(error)))
    except EOFError:
        return
    except OSError as error:  # no space, no permission: the system says it best
        connection.send(Failed(InputError, str(error)))
    except Exception:  # noqa: BLE001 every end of a worker is told to the parent
        connection.send(Failed(None, traceback.format_exc()))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class UnitRunner:
    """Does units, one after another, with one tokenizer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        tokenizer = load(context.tokenizer, "tokenizer.json")
        self._encoder = Encoder(tokenizer, context.identity, context.dtype)
        self._journal = Journal(context.store)
        self._notes: list[str] = []
        self._fast: Fast | None = None
        if context.fast_tokenizer:
            found = fast_backend(context.tokenizer, self._encoder.reference)
            if isinstance(found, Fast):
                self._fast = found
            else:
                self._notes.append(f"{found.reason}; tokenizers encodes all files")

    def take_notes(self) -> tuple[str, ...]:
        """What there is to tell since the last call."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def run(self, task: Task, report: Callable[[Counts], None]) -> UnitRecord:
        """Does the unit unless an earlier run did and all its files are as they were written.

        Damage is looked at again: what was met then may have been on the way, or has been restored since; and it is
        for this run to say what is done about it.
        """
        earlier, store = task.earlier, self._context.store
        believed = earlier is not None and DAMAGED not in earlier.rejects
        if earlier is not None and believed and all(is_intact(store, file) for file in files_of(earlier)):
            return earlier
        damaged = {part: 0 for part in task.unit.slices if part.damage is not None}
        seen: set[Slice] = set()
        by_reference: set[int] = set()
        while True:
            gates = {
                file: Gate(
                    self._encoder.reference,
                    None if file in by_reference else self._fast,
                    source.fingerprint,
                    full=self._context.exact_check_full,
                )
                for file, source in task.sources.items()
            }
            attempt = _Attempt(self._context, self._encoder, gates, task, report)
            try:
                record = attempt.run(damaged if self._context.quarantine_damage else {})
                break
            except _FileDisagreement as error:
                # Its documents may already be in a shard, so begin again, with the definition for this file.
                by_reference.add(error.file)
                name = task.sources[error.file].name
                self._notes.append(f"{name}: {error}; tokenizers encodes unit {task.unit.index} of this file")
            except _SliceDamage as error:
                # Rows of the slice may already be in a shard, so begin again: the first time to see whether the
                # damage is in the file or was on the way, then without any of them.
                if error.part in seen and not self._context.quarantine_damage:
                    raise
                if error.part in seen:
                    damaged[error.part] = error.intact_rows
                seen.add(error.part)
        self._journal.write(record)
        return record


class _FileDisagreement(Exception):
    """A fast backend that is not to be used for a file."""

    def __init__(self, message: str, file: int) -> None:
        super().__init__(message)
        self.file = file


class _SliceDamage(DamageError):
    """Damage, with the slice it is in and how many of its rows are to be used all the same."""

    def __init__(self, message: str, part: Slice, intact_rows: int) -> None:
        super().__init__(message)
        self.part, self.intact_rows = part, intact_rows


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
    gates: dict[int, Gate]
    task: Task
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
        pool = ThreadPoolExecutor(max_workers=context.threads, thread_name_prefix="encode")
        waiting: deque[Future[_EncodedGroup]] = deque()
        try:
            with shards:
                for group in self._groups(damaged):
                    waiting.append(pool.submit(self._encode, group))
                    if len(waiting) > context.threads + 1:
                        self._add(shards, waiting.popleft().result())
                while waiting:
                    self._add(shards, waiting.popleft().result())
                return self._record(shards.finish())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

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
                    raise _SliceDamage(str(error), part, error.intact_rows) from None
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
