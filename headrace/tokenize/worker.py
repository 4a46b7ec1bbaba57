"""Turn one work unit into stored shards, lineage and rejects, and then into the record that says so.

Runs in a spawned process, which takes units over a pipe until it is told that there are no more, and which ends at
once when its parent does: two runs never write to one dataset.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Final

import numpy as np

from headrace.dataeng.lineage import LineageColumns, RejectColumns, text_hash
from headrace.dataeng.sources.base import (
    DAMAGED,
    NO_TOKENS,
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
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import (
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
    parallel_tokenizer: bool


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


@dataclass(frozen=True, slots=True)
class Done:
    record: UnitRecord


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
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if context.parallel_tokenizer else "false"
    try:
        runner = UnitRunner(context)
        while (task := connection.recv()) is not None:
            connection.send(Done(runner.run(task, connection.send)))
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
        while True:
            attempt = _Attempt(self._context, self._encoder, task, report)
            try:
                record = attempt.run(damaged if self._context.quarantine_damage else {})
                break
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


class _SliceDamage(DamageError):
    """Damage, with the slice it is in and how many of its rows are to be used all the same."""

    def __init__(self, message: str, part: Slice, intact_rows: int) -> None:
        super().__init__(message)
        self.part, self.intact_rows = part, intact_rows


class _Attempt:
    """One pass over the rows of a unit."""

    def __init__(
        self, context: Context, encoder: Encoder, task: Task, report: Callable[[Counts], None]
    ) -> None:
        self._context, self._encoder, self._task, self._report = context, encoder, task, report
        self._shards = ShardWriter(
            context.store,
            task.unit.index,
            dtype=context.dtype,
            shard_bytes=context.config.shard_bytes,
            zstd_level=context.config.zstd_level,
        )
        self._rejects = RejectColumns()
        self._counts = {file: SourceCounts(file=file) for file in task.unit.files}
        self._reported = 0.0

    def run(self, damaged: Mapping[Slice, int]) -> UnitRecord:
        """`damaged`: slices of which only so many first rows are to be used."""
        for part in self._task.unit.slices:
            if part in damaged:
                self._salvage(part, damaged[part])
                continue
            try:
                for batch in read_slice(self._task.sources[part.file], part, self._context.columns):
                    self._take(part, batch)
            except SourceDamage as error:
                raise _SliceDamage(str(error), part, error.intact_rows) from None
        return self._finish()

    def _salvage(self, part: Slice, intact_rows: int) -> None:
        """Rejects the rows behind the intact ones: each of them, or where their number is unknown one for all."""
        if intact_rows:
            for batch in read_slice(self._task.sources[part.file], part, self._context.columns):
                left = intact_rows - (batch.first_row - part.first_row)
                self._take(part, batch.first(left))
                if left <= len(batch.texts):
                    break
        begin = part.first_row + intact_rows
        end = begin + 1 if part.num_rows is None else part.first_row + part.num_rows
        for row in range(begin, end):
            self._reject(part, row, None if intact_rows else part.byte_offset, DAMAGED)
        self._count(part, rows=end - begin)

    def _take(self, part: Slice, batch: Batch) -> None:
        offsets = batch.byte_offsets
        for position, reason in batch.rejects.items():
            self._reject(part, batch.first_row + position, offsets[position] if offsets else None, reason)
        for positions in _by_bytes(batch):
            self._encode(part, batch, positions)
        self._count(part, rows=len(batch.texts))
        if (now := time.monotonic()) - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._report(self._so_far())

    def _encode(self, part: Slice, batch: Batch, positions: list[int]) -> None:
        texts = [batch.texts[position] or b"" for position in positions]
        tokens, lengths = self._encoder.encode([text.decode() for text in texts])
        fits = self._shards.fits_a_shard(lengths)
        keep = fits & (lengths > 0)
        lineage = LineageColumns()
        name = self._task.sources[part.file].name
        for text, position, kept, length, fit in zip(
            texts, positions, keep.tolist(), lengths.tolist(), fits.tolist(), strict=True
        ):
            row = batch.first_row + position
            offset = batch.byte_offsets[position] if batch.byte_offsets else None
            if not kept:
                self._reject(part, row, offset, NO_TOKENS if fit else TOO_LARGE)
                continue
            lineage.add(
                document_id=batch.ids[position] if batch.ids else None,
                source=name,
                row_group=part.row_group,
                row=row,
                byte_offset=offset,
                text_bytes=len(text),
                tokens=length,
                text_hash=text_hash(text),
            )
        if not keep.all():
            tokens = tokens[np.repeat(keep, lengths)]
            lengths = lengths[keep]
        self._shards.add(tokens, lengths, lineage)
        self._count(
            part, documents=len(lengths), tokens=int(lengths.sum()), text_bytes=sum(lineage.text_bytes)
        )

    def _reject(self, part: Slice, row: int, byte_offset: int | None, reason: str) -> None:
        source = self._task.sources[part.file].name
        self._rejects.add(source, part.row_group, row, byte_offset, reason)
        self._count(part, rejected=1)

    def _count(self, part: Slice, **more: int) -> None:
        counts = self._counts[part.file]
        self._counts[part.file] = replace(
            counts, **{name: getattr(counts, name) + value for name, value in more.items()}
        )

    def _so_far(self) -> Counts:
        names = ("rows", "documents", "rejected", "tokens", "text_bytes")
        return Counts(*(sum(getattr(c, name) for c in self._counts.values()) for name in names))

    def _finish(self) -> UnitRecord:
        shards = self._shards.finish()
        unit, rejects = self._task.unit.index, self._rejects
        rejects_file = None
        if rejects.reason:
            data = rejects.to_parquet()
            rejects_file = StoredFile(name=rejects_name(unit), sha256=sha256_hex(data))
            self._context.store.write(rejects_file.name, data)
        return UnitRecord(
            unit=unit,
            shards=tuple(shards),
            sources=tuple(self._counts.values()),
            rejects=dict(sorted(Counter(rejects.reason).items())),
            rejects_file=rejects_file,
            examples=tuple(rejects.describe(i) for i in range(min(_MAX_EXAMPLES, len(rejects.reason)))),
        )


def _by_bytes(batch: Batch) -> Iterator[list[int]]:
    """Positions of the batch's documents, in order, in groups of about _ENCODE_BYTES of text."""
    group: list[int] = []
    size = 0
    for position, text in enumerate(batch.texts):
        if text is None:
            continue
        if group and size + len(text) > _ENCODE_BYTES:
            yield group
            group, size = [], 0
        group.append(position)
        size += len(text)
    if group:
        yield group
