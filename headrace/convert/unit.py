"""Turn a unit of adopted documents into stored shards, lineage and rejects, and into the record that says so."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from headrace.convert.token_file import Documents, TokenFile
from headrace.dataeng.lineage import lineage_rows
from headrace.dataeng.mds import Lengths, Tokens
from headrace.dataeng.rejects import Place, Rejects
from headrace.dataeng.sources.base import EMPTY, TOO_LARGE, Slice
from headrace.errors import InputError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import TokenizerId
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
from headrace.tokenize.reading import Tally
from headrace.tokenize.shard_writer import ShardWriter
from headrace.tokenize.tools import Tools

_REPORT_SECONDS: Final = 0.25
_MAX_EXAMPLES: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptUnit(Task):
    """`files`: those of the unit, by position. `earlier`: a record, to be believed only after a look at its files."""

    files: Mapping[int, TokenFile]
    earlier: UnitRecord | None = None

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> UnitRecord:
        """Does the unit unless an earlier run did and all its files are as they were written.

        Raises:
            DamageError: a file is not what it was.
            InputError: ids that are none of the tokenizer's, or documents that do not begin or end as was said.
        """
        store, earlier = tools.context.store, self.earlier
        if earlier is not None and all(is_intact(store, file) for file in files_of(earlier)):
            return earlier
        record = _Pass(self, tools, report).run()
        tools.journal.write(record)
        return record


@dataclass(slots=True)
class _Pass:
    task: AdoptUnit
    tools: Tools
    report: Callable[[Counts], None]
    tallies: dict[int, Tally] = field(default_factory=dict)
    rejects: Rejects = field(default_factory=Rejects)
    reported: float = 0.0

    def run(self) -> UnitRecord:
        context, unit = self.tools.context, self.task.unit
        shards = ShardWriter(
            context.store,
            unit.index,
            dtype=context.dtype,
            shard_bytes=context.config.shard_bytes,
            zstd_level=context.config.zstd_level,
        )
        with shards:
            for number, part in enumerate(unit.slices):
                tally = self.tallies.setdefault(part.file, Tally())
                for documents in self.task.files[part.file].read(part):
                    self._add(shards, number, part, tally, documents)
            rows = shards.finish()
        stored = None
        if counts := self.rejects.counts():
            data = self.rejects.to_parquet()
            stored = StoredFile(name=rejects_name(unit.index), sha256=sha256_hex(data))
            context.store.write(stored.name, data)
        return UnitRecord(
            unit=unit.index,
            shards=tuple(rows),
            sources=tuple(
                SourceCounts(file=file, **{name: getattr(tally, name) for name in COUNTED})
                for file, tally in self.tallies.items()
            ),
            rejects=counts,
            rejects_file=stored,
            examples=tuple(self.rejects.describe(_MAX_EXAMPLES)),
        )

    def _add(self, shards: ShardWriter, number: int, part: Slice, tally: Tally, documents: Documents) -> None:
        identity, dtype = self.tools.context.identity, self.tools.context.dtype
        source = self.task.files[part.file].source
        lengths, offsets = documents.lengths, documents.byte_offsets
        rows = documents.first_row + np.arange(len(lengths), dtype=np.int64)
        tally.rows += len(rows)
        kept = np.zeros(len(rows), bool)
        if documents.reason is None:
            kept = (lengths > 0) & shards.fits_a_shard(lengths)
        if not kept.all():
            where = Place(part=number, source=source.name, row_group=part.row_group)
            empty = (lengths == 0) if documents.reason is None else np.zeros(len(rows), bool)
            for reason, found in ((EMPTY, empty), (documents.reason or TOO_LARGE, ~kept & ~empty)):
                self.rejects.add(where, rows[found], None if offsets is None else offsets[found], reason)
            tally.rejected += int((~kept).sum())
        if kept.any():
            found = documents.tokens[np.repeat(kept, lengths)] if not kept.all() else documents.tokens
            lengths, rows = lengths[kept], rows[kept]
            tokens = checked_ids(found, lengths, rows, identity, dtype, source.name)
            lineage = lineage_rows(
                source=source.name,
                row_group=part.row_group,
                row=rows,
                byte_offset=None if offsets is None else offsets[kept],
                document_id=None,
                text_bytes=np.zeros(len(rows), np.int64),
                tokens=lengths,
                text_hash=ids_hashes(tokens, lengths),
            )
            shards.add(tokens, lengths, lineage)
            tally.documents += len(rows)
            tally.tokens += len(tokens)
        if (now := time.monotonic()) - self.reported >= _REPORT_SECONDS:
            self.reported = now
            self.report(self._so_far())

    def _so_far(self) -> Counts:
        totals = Counter[str]()
        for tally in self.tallies.values():
            totals.update({name: getattr(tally, name) for name in COUNTED})
        return Counts(**{name: totals[name] for name in COUNTED}, rejects=self.rejects.counts())


def checked_ids(
    found: Any, lengths: Lengths, rows: Any, identity: TokenizerId, dtype: str, where: str
) -> Tokens:
    """`found` as `dtype`, once each id is known to be one of the tokenizer's, and each document to have its frame.

    lengths: of the documents, each 1 or more; rows: their numbers, for messages.

    Raises InputError naming the first document that is not so.
    """
    ends = np.cumsum(lengths)
    low, high = int(found.min()), int(found.max())
    if low < 0 or high >= identity.vocab_size:
        bad = int(np.flatnonzero((found < 0) | (found >= identity.vocab_size))[0])
        row = rows[int(np.searchsorted(ends, bad, side="right"))]
        raise InputError(
            f"{where}: document {row:,} has the id {int(found[bad]):,}, and the vocabulary has 0 to "
            f"{identity.vocab_size - 1:,}: the ids are of another tokenizer or of another type, or were padded. Nothing is "
            "published; give the tokenizer that made them"
        )
    for name, token, at in (
        ("begin", identity.bos_id, ends - lengths),
        ("end", identity.eos_id, ends - 1),
    ):
        if token is not None and not (fine := found[at] == token).all():
            bad = int(np.argmin(fine))
            option = "--bos" if name == "begin" else "--eos"
            raise InputError(
                f"{where}: document {int(rows[bad]):,} does not {name} with the id {token:,} that {option} names, but with "
                f"{int(found[at][bad]):,}. Nothing is published; name what every document {name}s with, or none"
            )
    ids: Tokens = found.astype(dtype, copy=False)
    return ids


def ids_hashes(tokens: Tokens, lengths: Lengths) -> Any:
    """For each document the first 16 bytes of the SHA-256 of its ids as they lie in the shard, as one Arrow array."""
    import pyarrow as pa

    data = np.ascontiguousarray(tokens, tokens.dtype.newbyteorder("<")).view(np.uint8).data
    ends = np.cumsum(lengths * tokens.dtype.itemsize)
    offsets = [0, *ends.tolist()]
    sha256 = hashlib.sha256
    hashes = b"".join([sha256(data[begin:end]).digest()[:16] for begin, end in pairwise(offsets)])
    return pa.Array.from_buffers(pa.binary(16), len(lengths), [None, pa.py_buffer(hashes)])
