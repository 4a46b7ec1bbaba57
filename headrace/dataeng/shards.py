"""Shards opened for reading: a mapped raw file and the running token counts of its documents."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.cache import NodeCache, map_file
from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, InputError
from headrace.kernels.gather import document_ends
from headrace.manifests.shard_table import ShardRow

_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Shard:
    """file: uint8 [raw bytes], mapped. ends: uint32 [documents], tokens of documents 0..d."""

    row: ShardRow
    file: NDArray[np.uint8]
    itemsize: int
    ends: NDArray[np.uint32]

    @classmethod
    def map(cls, path: Path, row: ShardRow, dtype: str, where: str) -> Shard:
        """Maps a raw shard whose hash was checked and indexes its documents.

        Raises:
            DamageError: the file is not an MDS shard of `row.documents` documents and `row.tokens` tokens.
        """
        if row.tokens >= 1 << 32:
            raise InputError(f"{where}: {row.tokens:,} tokens in one shard; 2**32 is the limit")
        file = np.frombuffer(map_file(path), np.uint8)
        itemsize = np.dtype(dtype).itemsize
        # Before memory is taken for them: each document has an entry in the file's offset table.
        possible = 0 < row.documents <= len(file) // 4
        ends = np.empty(row.documents if possible else 0, np.uint32)
        bad = document_ends(file, itemsize, ends) if possible else 0
        if bad >= 0 or int(ends[-1]) != row.tokens:
            raise DamageError(
                f"{where}: document {max(bad, 0):,} of {row.documents:,} is not where the shard says, or the shard "
                f"does not hold {row.tokens:,} tokens; the shard is refused. Rebuild it with `headrace tokenize`"
            )
        return cls(row, file, itemsize, ends)

    def document_of(self, token: int) -> int:
        """The document that holds the shard's token number `token`."""
        return int(np.searchsorted(self.ends, token, side="right"))

    def document_start(self, document: int) -> int:
        """The number, in the shard, of a document's first token."""
        return int(self.ends[document - 1]) if document else 0

    def tokens(self, document: int) -> NDArray[np.uint32]:
        """One document's token ids: uint32 [tokens]. For tools; training rows are gathered by a kernel."""
        length = int(self.ends[document]) - self.document_start(document)
        end = int(self.file[8 + 4 * document : 12 + 4 * document].view("<u4")[0])
        raw = self.file[end - length * self.itemsize : end]
        return raw.view(f"<u{self.itemsize}").astype(np.uint32)


class OpenShards:
    """The shards of one dataset in use by this process, the least recently used ones closed. Thread-safe.

    Two limits: bytes of the indexes of documents, and maps, of which Linux gives a process 65,530.
    """

    INDEX_LIMIT_BYTES = 192 << 20
    MAX_OPEN = 4096

    def __init__(self, dataset: Dataset, cache_dir: Path | None = None) -> None:
        self.dataset = dataset
        self.cache = NodeCache(dataset, cache_dir)
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._opening: dict[int, threading.Lock] = {}

    def get(self, index: int) -> Shard:
        """The shard, fetched, verified and mapped if it is not yet; concurrent callers share one opening."""
        with self._lock:
            if (shard := self._open.get(index)) is not None:
                self._open.move_to_end(index)
                return shard
            opening = self._opening.setdefault(index, threading.Lock())
        with opening:
            with self._lock:
                if (shard := self._open.get(index)) is not None:
                    return shard
            row = self.dataset.shards.row(index)
            shard = self._map(row)
            with self._lock:
                if index not in self._open:
                    self._bytes += shard.ends.nbytes
                self._open[index] = shard
                while len(self._open) > 1 and (
                    self._bytes > self.INDEX_LIMIT_BYTES or len(self._open) > self.MAX_OPEN
                ):
                    self._bytes -= self._open.popitem(last=False)[1].ends.nbytes
                self._opening.pop(index, None)
        return shard

    def _map(self, row: ShardRow) -> Shard:
        where = self.dataset.store.describe(row.name)
        for _ in range(_ATTEMPTS):
            path = self.cache.path(row)
            try:
                return Shard.map(path, row, self.dataset.manifest.dtype, where)
            except FileNotFoundError:  # the cache was emptied between the two
                continue
        raise InputError(f"{where}: its cached copy is removed again and again before it can be opened")
