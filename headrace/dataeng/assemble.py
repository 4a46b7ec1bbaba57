"""Sample ids to a batch: locate, open the shards, gather. Pure but for the shards it opens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.batch import Batch
from headrace.dataeng.plan import Plan
from headrace.dataeng.shards import OpenShards
from headrace.dataeng.threads import Threads
from headrace.errors import DamageError, UsageError
from headrace.kernels.gather import boundaries, gather_row


def rank_ids(first: int, end: int, rank: int, world_size: int) -> NDArray[np.int64]:
    """The ids i in [first, end) with i % world_size == rank, ascending: int64."""
    return np.arange(first + (rank - first) % world_size, end, world_size, dtype=np.int64)


def open_shards(plan: Plan, cache_dir: Path | None) -> list[OpenShards]:
    """The shards behind each source of the plan.

    Raises:
        UsageError: a source has no dataset (it was made by hand, not by `PlanSource.open`).
    """
    shards = []
    for source in plan.sources:
        if source.dataset is None:
            raise UsageError(
                f"source {source.name!r} of the plan has no dataset behind it (it was not opened with "
                "PlanSource.open); such a plan can locate samples but not read them"
            )
        shards.append(OpenShards(source.dataset, cache_dir))
    return shards


class Assembler:
    """Builds batches of one plan from its datasets. Thread-safe."""

    def __init__(self, plan: Plan, cache_dir: Path | None = None) -> None:
        self.plan = plan
        self._shards = open_shards(plan, cache_dir)
        self._closed = False

    def close(self) -> None:
        """Ends each `build` under way, in whatever thread, before its next row."""
        self._closed = True

    @property
    def bytes_fetched(self) -> int:
        """Bytes this process moved from the stores."""
        return sum(shards.cache.bytes_fetched for shards in self._shards)

    def announce(self, ids: NDArray[np.int64], threads: Threads) -> None:
        """Starts to open the shards of samples that will be asked for soon."""
        where = self.plan.locate(ids)
        for key in dict.fromkeys(zip(where.source.tolist(), where.shard.tolist(), strict=True)):
            threads.submit(self._shards[key[0]].get, key[1])

    def build(self, first: int, end: int, rank: int, world_size: int) -> Batch:
        """The rank's rows of the global batch [first, end).

        Raises:
            DamageError: a shard is not what the manifest says, or holds an id outside the vocabulary.
            InputError: a store cannot be read.
        """
        ids = rank_ids(first, end, rank, world_size)
        where = self.plan.locate(ids)
        length, mask = self.plan.sequence_length, self.plan.order.mask_document_labels
        inputs = np.empty((len(ids), length), np.int64)
        labels, positions = np.empty_like(inputs), np.empty_like(inputs)
        pieces = digest = 0
        for row in range(len(ids)):
            if self._closed:
                raise UsageError("the loader was closed while it built a batch")
            source = int(where.source[row])
            shard = self._shards[source].get(int(where.shard[row]))
            row_pieces, largest, row_digest = gather_row(
                shard.file,
                shard.itemsize,
                shard.ends,
                int(where.sequence[row]) * length,
                int(ids[row]),
                mask,
                inputs[row],
                labels[row],
                positions[row],
            )
            if largest >= self.plan.vocab_size:
                raise DamageError(
                    f"shard {shard.row.name} of source {self.plan.sources[source].name!r} holds token id {largest:,}; "
                    f"the vocabulary has {self.plan.vocab_size:,}. The dataset is not what its manifest says: "
                    "tokenize it again"
                )
            pieces += row_pieces
            digest += row_digest
        cu_seqlens = np.empty(pieces + 1, np.int32)
        boundaries(positions, cu_seqlens)
        return Batch(
            sample_ids=ids,
            inputs=inputs,
            labels=labels,
            positions=positions,
            cu_seqlens=cu_seqlens,
            first_sample=first,
            end_sample=end,
            digest=digest % (1 << 64),
            cursor=self.plan.cursor(end),
        )
