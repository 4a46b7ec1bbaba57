"""Which documents of a damaged shard can be shown to be intact, and which cannot?

A shard's hash says that something is wrong, not what. Its lineage fixes where each document lies, and has a hash of
each text; so a document whose tokens decode to that text is intact, wherever the tokenizer can be undone. Of adopted
documents it has a hash of the ids, which needs no tokenizer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headrace.dataeng import mds
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import text_hash
from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.publish import TOKENIZER
from headrace.tokenize.tokenizers import load

# A report of a lost disk is not to need the memory of all its documents.
LISTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """numbers: the doubtful documents of the shard, ascending. remark: what else is known."""

    numbers: list[int]
    remark: str = ""

    def rows(self, lineage: Any) -> list[dict[str, Any]]:
        """The first LISTED of them, as lineage rows without the hash."""
        some = self.numbers[:LISTED]
        told = lineage.drop_columns(["text_hash"]).take(np.array(some, np.int64)).to_pylist()
        return [{"document": number, **row} for number, row in zip(some, told, strict=True)]


class Suspects:
    """Looks into damaged shards of one dataset. Thread-safe."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._lock = threading.Lock()
        self._loaded: list[Any] = []  # the tokenizer, or None where it is damaged itself

    def among(self, row: ShardRow, raw: memoryview | None, lineage: Any) -> Found:
        """raw: what is there of the unpacked shard, or None for nothing. lineage: intact, so the lengths in it are right."""
        dtype = np.dtype(self._dataset.manifest.dtype).newbyteorder("<")
        every = Found(list(range(len(lineage))))
        lengths = lineage["tokens"].to_numpy()
        if raw is None or len(lineage) != row.documents or int(lengths.sum()) != row.tokens:
            return every
        shard_bytes = self._dataset.manifest.shard_bytes
        begin = mds.overhead_bytes(len(lengths), dtype.name, shard_bytes)
        ends = begin + np.cumsum(mds.sample_bytes(lengths, dtype.name))
        if int(ends[-1]) != row.raw_bytes:
            return every
        whole = np.zeros(row.raw_bytes, np.uint8)
        there = min(len(raw), row.raw_bytes)
        whole[:there] = np.frombuffer(raw[:there], np.uint8)
        parts = [
            whole[end - length * dtype.itemsize : end].view(dtype)
            for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]
        if sha256_hex(mds.shard_buffer(list(parts), lengths, shard_bytes).data) == row.raw_sha256:
            return Found(
                [],
                "all tokens are as they were: what differs is the table of offsets or the heads of samples",
            )
        tokenizer = self._tokenizer()

        def is_intact(ids: Any, hashed: bytes) -> bool:
            if text_hash(ids.tobytes()) == hashed:  # of adopted documents the ids are hashed
                return True
            return tokenizer is not None and text_hash(self._text(tokenizer, ids)) == hashed

        hashes = lineage["text_hash"].to_pylist()
        found = [
            number
            for number, (ids, hashed) in enumerate(zip(parts, hashes, strict=True))
            if ends[number] > there or not is_intact(ids, hashed)
        ]
        # No doubtful text at all: two tokens may be spelt alike.
        return Found(found) if found else every

    def _text(self, tokenizer: Any, ids: Any) -> bytes:
        identity = self._dataset.manifest.tokenizer
        before = 0 if identity.bos_id is None else 1
        after = 0 if identity.eos_id is None else 1
        text: str = tokenizer.decode(ids[before : len(ids) - after].tolist(), skip_special_tokens=False)
        return text.encode(errors="surrogatepass")

    def _tokenizer(self) -> Any:
        with self._lock:
            if not self._loaded:
                try:
                    self._loaded.append(load(self._dataset.read(TOKENIZER), TOKENIZER))
                except (DamageError, InputError):  # it is a problem of its own
                    self._loaded.append(None)
            return self._loaded[0]
