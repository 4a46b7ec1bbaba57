"""Turn one work unit into stored shards, lineage and rejects, and then into the record that says so."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.lineage import lineage_rows, string_buffers, text_hashes
from headrace.dataeng.mds import Lengths, Tokens
from headrace.dataeng.sources.base import (
    DAMAGED,
    NO_TOKENS,
    NOT_TOKENIZABLE,
    TOO_LARGE,
    Slice,
)
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.backends import Disagreement, Gate
from headrace.tokenize.damage import past_damage
from headrace.tokenize.dedup.drops import ChangedSinceScan, Drops, Scanned
from headrace.tokenize.dedup.journal import ScanJournal
from headrace.tokenize.executors.base import Counts, Task
from headrace.tokenize.filters.reasons import was_asked_for
from headrace.tokenize.journal import (
    COUNTED,
    SourceCounts,
    StoredFile,
    UnitRecord,
    files_of,
    is_intact,
    rejects_name,
)
from headrace.tokenize.reading import Group, Reading
from headrace.tokenize.shard_writer import ShardWriter
from headrace.tokenize.tokenizers import Encoder
from headrace.tokenize.tools import Context, Tools

_REPORT_SECONDS: Final = 0.25
_MAX_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeUnit(Task):
    """`earlier`: the record of an earlier run, to be believed only after a look at its files.

    scanned: what was found when duplicates were looked for; None if they were not.
    """

    earlier: UnitRecord | None = None
    scanned: Scanned | None = None

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> UnitRecord:
        """Does the unit unless an earlier run did and all its files are as they were written.

        Damage is looked at again: what was met then may have been on the way, or has been restored since; and it is
        for this run to say what is done about it.
        """
        earlier, context = self.earlier, tools.context
        scanned = None if self.scanned is None else self.scanned.identity
        believed = earlier is not None and DAMAGED not in earlier.rejects and earlier.scanned == scanned
        if (
            earlier is not None
            and believed
            and all(is_intact(context.store, file) for file in files_of(earlier))
        ):
            return earlier
        drops = None if self.scanned is None else Drops(context.store, self.scanned)
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
                reading = Reading(
                    self.unit,
                    self.sources,
                    context.columns,
                    tools.chain,
                    max_document_bytes=context.config.max_document_bytes,
                    damaged=damaged,
                )
                try:
                    groups = reading.groups() if drops is None else drops.leave_out(reading)
                    return _Attempt(
                        context, tools.encoder, tools.pool, gates, self, report, reading, groups
                    ).run()
                except _FileDisagreement as error:
                    # Its documents may already be in a shard, so begin again, with the definition for this file.
                    by_reference.add(error.file)
                    name = self.sources[error.file].name
                    tools.note(f"{name}: {error}; tokenizers encodes unit {self.unit.index} of this file")

        try:
            record = past_damage(self.unit, attempt, quarantine=context.quarantine_damage)
        except ChangedSinceScan:
            ScanJournal(context.store).forget(self.unit.index)
            raise ChangedSinceScan(
                f"{self.describe()}: gives other documents than when duplicates were looked for: a file has changed since, or "
                "a hook gives another text for the same one. Leave the inputs as they are and run the same command again: it "
                "reads this unit anew, and decides anew what is a duplicate"
            ) from None
        tools.journal.write(record)
        return record


class _FileDisagreement(Exception):
    """A fast backend that is not to be used for a file."""

    def __init__(self, message: str, file: int) -> None:
        super().__init__(message)
        self.file = file


@dataclass(frozen=True, kw_only=True, slots=True)
class _EncodedGroup:
    group: Group
    tokens: Tokens
    lengths: Lengths
    text_bytes: NDArray[np.int64]
    text_hash: Any
    failed: tuple[int, ...]


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
    reading: Reading
    groups: Iterator[Group]
    reported: float = 0.0

    def run(self) -> UnitRecord:
        """Raises `SliceDamage` and `_FileDisagreement`."""
        context, unit = self.context, self.task.unit
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
                for group in self.groups:
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

    def _encode(self, group: Group) -> _EncodedGroup:
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
            text_hash=group.text_hash if group.text_hash is not None else text_hashes(group.texts),
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
            gave_up = np.zeros(len(keep), bool)
            gave_up[list(done.failed)] = True
            for reason, found in (
                (NOT_TOKENIZABLE, ~keep & gave_up),
                (NO_TOKENS, ~keep & ~gave_up & fits),
                (TOO_LARGE, ~keep & ~gave_up & ~fits),
            ):
                offsets = None if byte_offsets is None else byte_offsets[found]
                self.reading.reject(group.number, part, rows[found], offsets, reason)
            tokens, lengths = tokens[np.repeat(keep, lengths)], lengths[keep]
            rows, text_bytes = rows[keep], text_bytes[keep]
            byte_offsets = None if byte_offsets is None else byte_offsets[keep]
            kept = np.flatnonzero(keep)
            text_hash, ids = text_hash.take(kept), None if ids is None else ids.take(kept)
        tally = self.reading.tallies[part.file]
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

    def _so_far(self) -> Counts:
        return Counts(
            **{name: self.reading.total(name) for name in COUNTED}, rejects=self.reading.rejects.counts()
        )

    def _record(self, shards: list[ShardRow]) -> UnitRecord:
        unit, rejects = self.task.unit.index, self.reading.rejects
        stored = None
        if counts := rejects.counts():
            data = rejects.to_parquet()
            stored = StoredFile(name=rejects_name(unit), sha256=sha256_hex(data))
            self.context.store.write(stored.name, data)
        faults = tuple(rejects.describe(_MAX_EXAMPLES, lambda reason: not was_asked_for(reason)))
        return UnitRecord(
            unit=unit,
            shards=tuple(shards),
            sources=tuple(
                SourceCounts(file=file, **{name: getattr(tally, name) for name in COUNTED})
                for file, tally in self.reading.tallies.items()
            ),
            rejects=counts,
            rejects_file=stored,
            examples=faults or tuple(rejects.describe(_MAX_EXAMPLES)),
            scanned=None if self.task.scanned is None else self.task.scanned.identity,
        )
