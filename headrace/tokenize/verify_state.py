"""What a verification has found intact so far: a file to which it appends, so that it can be continued after a kill.

    {"format": "headrace.verify", "version": 1, "manifest": HASH}     the first line
    [0, 63]                                                           shards 0 to 63 are intact
    [64, 64]

Only what is intact is written, so that what was damaged is looked at again. A line that was cut short by a kill counts for
nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import IncompleteError, InputError, MismatchError
from headrace.manifests.canonical import canonical_json

_FORMAT: Final = "headrace.verify"
_VERSION: Final = 1
_EVERY: Final = 16  # shards: so many are checked again after a kill, at most


class VerifyState:
    """The state of one verification, in a local file. A context manager; while it is open no other may have it."""

    def __init__(self, path: str | os.PathLike[str], manifest_hash: str, num_shards: int) -> None:
        """Opens or begins it.

        Raises:
            MismatchError: the file belongs to another dataset or version.
            InputError: the file is something else.
            IncompleteError: another verification is at work with it.
        """
        self._path = Path(path)
        self.intact: NDArray[np.bool_] = np.zeros(num_shards, bool)  # [shards]
        self._first: int | None = None
        self._last = -1
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IncompleteError(
                    f"{path}: another verification is at work with this file; wait for it, or give another --state"
                ) from None
            self._load(manifest_hash)
        except BaseException:
            os.close(self._file)
            raise

    def _load(self, manifest_hash: str) -> None:
        data = self._path.read_bytes()
        whole = data.rpartition(b"\n")[0]
        lines = whole.split(b"\n") if whole else []
        head = {"format": _FORMAT, "version": _VERSION, "manifest": manifest_hash}
        if not lines:
            if data and not canonical_json(head).startswith(data):
                raise self._foreign()
            os.ftruncate(self._file, 0)
            self._append(head)
            return
        found = self._parse(lines[0])
        if not isinstance(found, dict) or found.get("format") != _FORMAT or found.get("version") != _VERSION:
            raise self._foreign()
        if found != head:
            raise MismatchError(
                f"{self._path}: holds what was verified of the dataset {str(found.get('manifest'))[:16]}..., this is "
                f"{manifest_hash[:16]}...; give another --state, or remove that file"
            )
        for line in lines[1:]:
            entry = self._parse(line)
            if not (isinstance(entry, list) and len(entry) == 2 and all(type(n) is int for n in entry)):
                raise self._foreign()
            first, last = entry
            if not 0 <= first <= last < len(self.intact):
                raise self._foreign()
            self.intact[first : last + 1] = True
        os.ftruncate(self._file, len(whole) + 1)
        os.lseek(self._file, 0, os.SEEK_END)

    def _parse(self, line: bytes) -> Any:
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise self._foreign() from None

    def _foreign(self) -> InputError:
        return InputError(
            f"{self._path}: not a file that `headrace verify --state` wrote, so it is left alone; give another name"
        )

    def note(self, shard: int) -> None:
        """This shard is intact. Runs of shards are written as one line."""
        if self._first is not None and shard != self._last + 1:
            self._flush()
        if self._first is None:
            self._first = shard
        self._last = shard
        if shard - self._first + 1 >= _EVERY:
            self._flush()

    def _flush(self) -> None:
        if self._first is not None:
            self._append([self._first, self._last])
        self._first = None

    def _append(self, value: Any) -> None:
        os.write(self._file, canonical_json(value) + b"\n")

    def remove(self) -> None:
        """All is intact: the next verification looks at everything again."""
        self._first = None
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> VerifyState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._flush()
            os.fsync(self._file)
        finally:
            os.close(self._file)
