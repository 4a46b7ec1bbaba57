"""Records that do not fit in memory, spread over files without names: nothing is left of them when the process ends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.storage import Store
from headrace.errors import InputError

MAX_PARTITIONS: Final = 128  # each an open file, of up to three sets at a time; systems allow 1,024


class Scratch:
    """Where scratch files go, and how much of them is held in memory at a time.

    directory: None is the system's (TMPDIR). budget: bytes for what one step holds; working copies come to a few times that.
    """

    def __init__(self, directory: str | None, budget: int) -> None:
        self.directory, self.budget = directory, budget

    @classmethod
    def beside(cls, store: Store, budget: int) -> Scratch:
        """On the file system of a local store, where the dataset is going to need room too."""
        return cls(str(store.local_root) if store.is_local else None, budget)

    def partitions_for(self, num_bytes: int) -> int:
        """In how many partitions records of so many bytes have to be spread, so that each fits the budget."""
        return max(1, min(MAX_PARTITIONS, -(-num_bytes // self.budget)))


class Partitions:
    """Records of `width` uint64 each in `count` partitions, read again in the order in which they came.

    Use as a context manager. Small ones stay in memory.
    """

    def __init__(self, scratch: Scratch, count: int, width: int) -> None:
        self._scratch, self._width = scratch, width
        self._files = [
            tempfile.SpooledTemporaryFile(  # noqa: SIM115 closed by __exit__
                max_size=max(1, scratch.budget // count), dir=scratch.directory, prefix=".tmp-"
            )
            for _ in range(count)
        ]

    def add(self, numbers: NDArray[np.integer], records: NDArray[np.uint64]) -> None:
        """numbers: [records], to which partition each goes. records: uint64 [records, width].

        Raises:
            InputError: there is no room.
        """
        order = np.argsort(numbers.astype(np.uint16), kind="stable")
        sorted_numbers = numbers[order]
        bounds = np.searchsorted(sorted_numbers, np.arange(len(self._files) + 1))
        records = records[order]
        with self._room():
            for number in np.unique(sorted_numbers).tolist():
                self._files[number].write(records[bounds[number] : bounds[number + 1]].tobytes())

    def read(self, number: int) -> Iterator[NDArray[np.uint64]]:
        """The records of a partition, in blocks of about the budget. Raises as `add`."""
        file, size = self._files[number], 8 * self._width
        with self._room():
            file.seek(0)  # writes what is in its buffer
        while block := file.read(max(1, self._scratch.budget // size) * size):
            yield np.frombuffer(block, np.uint64).reshape(-1, self._width)

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self._scratch.directory or tempfile.gettempdir()}: {error.strerror}; finding duplicates writes scratch "
                "files there. Make room, or for an object store name another directory in TMPDIR, and run the command again"
            ) from None

    def __len__(self) -> int:
        return len(self._files)

    def __enter__(self) -> Partitions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            file.close()
