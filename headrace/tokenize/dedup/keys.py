"""The keys of a unit's documents, in order, in files of at most _FILE_DOCUMENTS: 28 bytes a document, and 128 or 256 for
near duplicates.

    _scan/000012-000.keys.parquet    part, row: the slice in the unit, and the row; hash_0, hash_1: of the text;
                                     band_00, ...: of the signature
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headrace.dataeng.storage import Store
from headrace.errors import DamageError
from headrace.manifests.canonical import sha256_hex
from headrace.tokenize.journal import SCAN_DIRECTORY, StoredFile, is_intact

HASH: Final = ("hash_0", "hash_1")
_FILE_DOCUMENTS: Final = 1 << 18
_DTYPES: Final = {"part": np.int32, "row": np.int64}


@dataclass(frozen=True, kw_only=True, slots=True)
class KeysFile:
    name: str
    sha256: str
    documents: int


def band_columns(bands: int) -> list[str]:
    return [f"band_{number:02d}" for number in range(bands)]


class DocumentsDigest:
    """What was read of a unit, as one hash: each document's slice, row and text. How they are grouped does not show."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, part: int, rows: NDArray[np.int64], text_hashes: Any) -> None:
        """text_hashes: an Arrow array of binary(16)."""
        seen = np.empty(len(rows), [("part", "<i4"), ("row", "<i8"), ("hash", "V16")])
        seen["part"], seen["row"] = part, rows
        seen["hash"] = hash_bytes(text_hashes)
        self._digest.update(seen.tobytes())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def hash_bytes(text_hashes: Any) -> NDArray[np.void]:
    """The values of an Arrow array of binary(16), as numpy's V16."""
    begin = text_hashes.offset
    return np.frombuffer(text_hashes.buffers()[1], "V16")[begin : begin + len(text_hashes)]


class KeysWriter:
    """Stores the keys of unit `unit`. Use `add` for groups in order, then `finish`."""

    def __init__(self, store: Store, unit: int, bands: int) -> None:
        self._store, self._unit, self._bands = store, unit, bands
        self._files: list[KeysFile] = []
        self._held: list[dict[str, NDArray[Any]]] = []
        self._num_held = 0

    def add(
        self, part: int, rows: NDArray[np.int64], text_hashes: Any, bands: NDArray[np.uint64] | None
    ) -> None:
        """rows: int64 [documents] of one slice. bands: uint64 [documents, bands], None if there are none."""
        hashes = hash_bytes(text_hashes).view("<u8").reshape(len(rows), 2)
        columns: dict[str, NDArray[Any]] = {
            "part": np.full(len(rows), part, np.int32),
            "row": rows,
            HASH[0]: hashes[:, 0],
            HASH[1]: hashes[:, 1],
        }
        if bands is not None:
            columns |= {name: bands[:, number] for number, name in enumerate(band_columns(self._bands))}
        begin = 0
        while begin < len(rows):
            end = min(len(rows), begin + _FILE_DOCUMENTS - self._num_held)
            self._held.append({name: column[begin:end] for name, column in columns.items()})
            self._num_held += end - begin
            begin = end
            if self._num_held == _FILE_DOCUMENTS:
                self._store_file()

    def finish(self) -> tuple[KeysFile, ...]:
        if self._num_held:
            self._store_file()
        return tuple(self._files)

    def _store_file(self) -> None:
        columns = {name: np.concatenate([held[name] for held in self._held]) for name in self._held[0]}
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table(columns),
            sink,
            compression="none",  # hashes do not get smaller
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        )
        data = bytes(sink.getvalue())
        name = f"{SCAN_DIRECTORY}/{self._unit:06d}-{len(self._files):03d}.keys.parquet"
        self._store.write(name, data)
        self._files.append(KeysFile(name=name, sha256=sha256_hex(data), documents=self._num_held))
        self._held, self._num_held = [], 0


def read_columns(store: Store, file: KeysFile, names: list[str]) -> dict[str, NDArray[Any]]:
    """Some columns of a file of keys: part as int32, row as int64, all others as uint64.

    Raises:
        DamageError: the file is gone or is not what was stored.
    """
    try:
        with store.open(file.name) as opened:
            table = pq.ParquetFile(opened, page_checksum_verification=True, pre_buffer=False).read(
                names, use_threads=False
            )
        columns = {name: table.column(name).to_numpy() for name in names}
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise _gone(store, file, type(error).__name__) from None
    if any(len(column) != file.documents or column.dtype != _DTYPES.get(name, np.uint64) for name, column in columns.items()):  # fmt: skip
        raise _gone(store, file, "another shape")
    return columns


def is_kept(store: Store, name: str, sha256: str) -> bool:
    """Whether a file is still what was stored."""
    return is_intact(store, StoredFile(name=name, sha256=sha256))


def _gone(store: Store, file: KeysFile, what: str) -> DamageError:
    return DamageError(
        f"{store.describe(file.name)}: not the file of keys that was stored ({what}); run the same command again, which "
        "scans its unit anew"
    )
