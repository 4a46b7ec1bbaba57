"""The documents of a dataset to which others are added, as keys: what its lineage says of their texts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.dataset import Dataset
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.dedup.keys import HASH, hash_bytes
from headrace.tokenize.rewrite import checked_lineage

PARENT_UNIT: Final = -1  # stands for all of its documents


class Parent:
    """Numbers the sources and row groups that it meets: they are the `part` of these documents."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._numbers: dict[tuple[str, int | None], int] = {}
        self._names: list[tuple[str, int | None]] = []

    def name_of(self, part: int) -> tuple[str, int | None]:
        """The source and the row group."""
        return self._names[part]

    def read(self, row: ShardRow, names: list[str]) -> dict[str, NDArray[Any]]:
        """Of every document of a shard, as in a file of keys, what `names` ask for of part, row and the hash.

        Raises:
            DamageError: its lineage is not what the manifest was written for.
        """
        table = checked_lineage(self.dataset, row, ["source", "row_group", "row", "text_hash"])
        hashes = hash_bytes(table["text_hash"].combine_chunks()).view("<u8").reshape(-1, 2)
        columns = {
            "part": self._parts(table),
            "row": table["row"].to_numpy(),
            HASH[0]: hashes[:, 0],
            HASH[1]: hashes[:, 1],
        }
        return {name: columns[name] for name in names}

    def _parts(self, table: Any) -> NDArray[np.int32]:
        sources = table["source"].combine_chunks().dictionary_encode()
        groups = table["row_group"].fill_null(-1).to_numpy().astype(np.int64)
        pairs = np.stack([sources.indices.to_numpy(), groups], axis=1)
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        names = sources.dictionary.to_pylist()
        numbers = [
            self._number_of(names[source], None if group < 0 else group)
            for source, group in distinct.tolist()
        ]
        return np.array(numbers, np.int32)[which.reshape(-1)]

    def _number_of(self, source: str, group: int | None) -> int:
        if (source, group) not in self._numbers:
            self._numbers[source, group] = len(self._names)
            self._names.append((source, group))
        return self._numbers[source, group]
