"""The axis of one epoch of one source: its shards in the epoch's order, with running sequence counts."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.feistel import permutation
from headrace.kernels.mix import derive_reference

_OBJECT_BYTES = 1024
_SHARD_ORDER = 0x5348415244  # "SHARD": keeps the shard permutation's key apart from the windows' keys


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """shards: int32 [S], the shard at each place. ends: int64 [S], sequences up to and including that place."""

    shards: NDArray[np.int32]
    ends: NDArray[np.int64]

    @classmethod
    def build(cls, num_sequences: NDArray[np.int64], source_key: int, epoch: int) -> EpochOrder:
        key = derive_reference(derive_reference(source_key, _SHARD_ORDER), epoch)
        shards = permutation(len(num_sequences), np.uint64(key)).astype(np.int32)
        return cls(shards, np.cumsum(num_sequences[shards]))

    def locate(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """(shard, sequence in the shard) of each axis position."""
        place = np.searchsorted(self.ends, positions, side="right")
        before = np.where(place > 0, self.ends[place - 1], 0)
        return self.shards[place], positions - before

    @property
    def nbytes(self) -> int:
        """Memory it holds, Python's objects included: orders of tiny sources are many and have little else."""
        return self.shards.nbytes + self.ends.nbytes + _OBJECT_BYTES


class EpochOrders:
    """The epoch orders in use, least recently used ones dropped past a fixed number of bytes. Thread-safe."""

    LIMIT_BYTES = 96 << 20

    def __init__(self) -> None:
        self._orders: OrderedDict[tuple[int, int], EpochOrder] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, source: int, epoch: int, num_sequences: NDArray[np.int64], source_key: int) -> EpochOrder:
        with self._lock:
            if (order := self._orders.get((source, epoch))) is not None:
                self._orders.move_to_end((source, epoch))
                return order
        order = EpochOrder.build(num_sequences, source_key, epoch)
        with self._lock:
            if (source, epoch) not in self._orders:
                self._orders[source, epoch] = order
                self._bytes += order.nbytes
            while self._bytes > self.LIMIT_BYTES and len(self._orders) > 1:
                self._bytes -= self._orders.popitem(last=False)[1].nbytes
        return order
