"""From a sample id back to the documents it was cut from: arithmetic, then one lineage row a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from headrace.dataeng.assemble import open_shards
from headrace.dataeng.lineage import read_lineage
from headrace.dataeng.plan import Plan
from headrace.dataeng.shards import OpenShards, Shard
from headrace.errors import DamageError
from headrace.manifests.canonical import sha256_hex

_LINEAGE_TABLES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """The part of one document that lies in one sample.

    column: where it begins in the sample's inputs. token_begin, token_end: which of the document's tokens (end
    exclusive). file, row_group, row, byte_offset: where the document came from. ids: those tokens.
    """

    column: int
    document_id: str | None
    file: str
    row_group: int | None
    row: int
    byte_offset: int | None
    shard: str
    document: int
    token_begin: int
    token_end: int
    document_tokens: int
    ids: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedSample:
    """One sample: which source, epoch, shard and sequence it is, and the documents in its inputs, in order."""

    sample: int
    source: str
    epoch: int
    shard: str
    sequence: int
    pieces: list[Piece]


class Tracer:
    """Traces samples of one plan; reads shards through the node cache and lineage from the datasets."""

    def __init__(self, plan: Plan, cache_dir: Path | None = None) -> None:
        self._plan = plan
        self._shards = open_shards(plan, cache_dir)
        self._lineage = lru_cache(maxsize=_LINEAGE_TABLES)(self._read_lineage)

    def trace(self, samples: Sequence[int]) -> Iterator[TracedSample]:
        """One `TracedSample` an id, in the order given.

        Raises:
            DamageError: a shard or its lineage is not what the manifest says.
        """
        where = self._plan.locate(samples)
        for index, sample in enumerate(samples):
            source = int(where.source[index])
            shard_index, sequence = int(where.shard[index]), int(where.sequence[index])
            shard = self._shards[source].get(shard_index)
            yield TracedSample(
                sample=sample,
                source=self._plan.sources[source].name,
                epoch=int(where.epoch[index]),
                shard=shard.row.name,
                sequence=sequence,
                pieces=list(self._pieces(shard, self._lineage(source, shard_index), sequence)),
            )

    def _pieces(self, shard: Shard, lineage: Any, sequence: int) -> Iterator[Piece]:
        length = self._plan.sequence_length
        begin, end = sequence * length, (sequence + 1) * length
        document = shard.document_of(begin)
        while begin < end:
            start, stop = shard.document_start(document), int(shard.ends[document])
            take = min(stop, end)
            origin = lineage.slice(document, 1).to_pylist()[0]
            yield Piece(
                column=begin - sequence * length,
                document_id=origin["document_id"],
                file=origin["source"],
                row_group=origin["row_group"],
                row=origin["row"],
                byte_offset=origin["byte_offset"],
                shard=shard.row.name,
                document=document,
                token_begin=begin - start,
                token_end=take - start,
                document_tokens=stop - start,
                ids=shard.tokens(document)[begin - start : take - start].tolist(),
            )
            begin, document = take, document + 1

    def _read_lineage(self, source: int, shard_index: int) -> Any:
        shards: OpenShards = self._shards[source]
        row, store = shards.dataset.shards.row(shard_index), shards.dataset.store
        where = store.describe(row.lineage)
        try:
            data = store.read(row.lineage)
        except FileNotFoundError:
            raise DamageError(
                f"{where} is missing: the shard's documents cannot be named; restore it"
            ) from None
        if (found := sha256_hex(data)) != row.lineage_sha256:
            raise DamageError(
                f"{where}: SHA-256 {found[:16]}…, the manifest says {row.lineage_sha256[:16]}…; the shard's documents "
                "cannot be named from it. Restore it, or tokenize again"
            )
        return read_lineage(data, where)
