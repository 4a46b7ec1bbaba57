"""The first pass over a unit: what the tokenizer is going to see, as keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.dataeng.lineage import string_buffers, text_hashes
from headrace.dataeng.sources.base import DAMAGED, Slice
from headrace.tokenize.damage import past_damage
from headrace.tokenize.dedup.journal import ScanJournal, ScanRecord
from headrace.tokenize.dedup.keys import DocumentsDigest, KeysWriter, is_kept
from headrace.tokenize.dedup.signatures import bands_of
from headrace.tokenize.executors.base import Counts, Task
from headrace.tokenize.journal import COUNTED
from headrace.tokenize.reading import Reading
from headrace.tokenize.tools import Tools

_REPORT_SECONDS: Final = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanUnit(Task):
    """`earlier`: the record of an earlier run, to be believed only after a look at its files."""

    earlier: ScanRecord | None = None

    def run(self, tools: Tools, report: Callable[[Counts], None]) -> ScanRecord:
        """Scans the unit unless an earlier run did; damage is looked at again, as it is when a unit is tokenized."""
        earlier, context = self.earlier, tools.context
        believed = earlier is not None and DAMAGED not in earlier.rejects
        if (
            earlier is not None
            and believed
            and all(is_kept(context.store, file.name, file.sha256) for file in earlier.keys)
        ):
            return earlier

        def attempt(damaged: Mapping[Slice, int]) -> ScanRecord:
            return self._scan(tools, report, damaged)

        record = past_damage(self.unit, attempt, quarantine=context.quarantine_damage)
        ScanJournal(context.store).write(record)
        return record

    def _scan(
        self, tools: Tools, report: Callable[[Counts], None], damaged: Mapping[Slice, int]
    ) -> ScanRecord:
        context = tools.context
        reading = Reading(
            self.unit,
            self.sources,
            context.columns,
            tools.chain,
            max_document_bytes=context.config.max_document_bytes,
            damaged=damaged,
        )
        banding = context.config.dedup.banding
        writer = KeysWriter(context.store, self.unit.index, 0 if banding is None else banding.bands)
        digest = DocumentsDigest()
        reported = 0.0
        for group in reading.groups():
            hashes = text_hashes(group.texts)
            digest.add(group.number, group.rows, hashes)
            bands = None if banding is None else bands_of(group.texts, banding)
            writer.add(group.number, group.rows, hashes, bands)
            offsets, _ = string_buffers(group.texts)
            tally = reading.tallies[group.part.file]
            tally.documents += len(group.rows)
            tally.text_bytes += int(offsets[-1] - offsets[0])
            if (now := time.monotonic()) - reported >= _REPORT_SECONDS:
                reported = now
                counts = {name: reading.total(name) for name in COUNTED}
                report(Counts(**counts, rejects=reading.rejects.counts()))
        return ScanRecord(
            unit=self.unit.index,
            keys=writer.finish(),
            digest=digest.hexdigest(),
            counts={name: reading.total(name) for name in COUNTED},
            rejects=reading.rejects.counts(),
        )
