"""A list of documents, from a file: ids one a line, JSON lines, or Parquet. For takedown by list.

A document is named by `document_id`, by `text_hash` (32 hexadecimal digits), or by `source` and `row`, with `row_group` where the
document's lineage has one. Any selection of lineage is such a file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.dataeng.lineage import SCHEMA
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.storage import redact
from headrace.errors import InputError
from headrace.manifests.canonical import canonical_json, parse_json_object, sha256_hex
from headrace.manifests.parquet import read_table

_MAX_BYTES: Final = 1 << 30
_NAMES: Final = ("document_id", "text_hash", "source", "row_group", "row")
_TYPES: Final[dict[str, tuple[type, ...]]] = {"row_group": (int,), "row": (int,), "text_hash": (str, bytes)}
_Place = tuple[str, int | None, int]


class DocumentList:
    """columns: those of the lineage that it looks at. Thread-safe."""

    def __init__(self, entries: Iterator[Mapping[str, Any]], where: str) -> None:
        self._ids: set[str] = set()
        self._hashes: set[bytes] = set()
        self._places: set[_Place] = set()
        for number, entry in enumerate(entries, start=1):
            self._add(entry, f"{where}, entry {number:,}")
        if not len(self):
            raise InputError(f"{where}: names no document")
        self._found_ids: set[str] = set()
        self._found_hashes: set[bytes] = set()
        self._found_places: set[_Place] = set()
        self._lock = threading.Lock()
        self._source_names = {source for source, _, _ in self._places}
        self._sources = pa.array(sorted(self._source_names), pa.string())
        self._id_values = pa.array(sorted(self._ids), pa.string())
        self._hash_values = pa.array(sorted(self._hashes), SCHEMA.field("text_hash").type)
        used = {
            "document_id": bool(self._ids),
            "text_hash": bool(self._hashes),
            **dict.fromkeys(("source", "row_group", "row"), bool(self._places)),
        }
        self.columns = tuple(name for name in _NAMES if used[name])

    def __len__(self) -> int:
        return len(self._ids) + len(self._hashes) + len(self._places)

    @property
    def digest(self) -> str:
        """SHA-256 of what is listed, in whatever order and file format it was. The list itself is written nowhere."""
        return sha256_hex(
            canonical_json(
                [
                    sorted(self._ids),
                    sorted(value.hex() for value in self._hashes),
                    sorted(([s, -1 if g is None else g, r] for s, g, r in self._places)),
                ]
            )
        )

    def selects(self, lineage: Any) -> Any:
        """A BooleanArray [documents] without nulls."""
        selected = pa.nulls(len(lineage), pa.bool_()).fill_null(False)
        ids: list[str] = []
        hashes: list[bytes] = []
        places: list[tuple[int, _Place]] = []
        if self._ids:
            mask = _among(lineage["document_id"], self._ids, self._id_values)
            ids = pc.unique(lineage["document_id"].filter(mask)).to_pylist()
            selected = pc.or_(selected, mask)
        if self._hashes:
            mask = _among(lineage["text_hash"], self._hashes, self._hash_values)
            hashes = pc.unique(lineage["text_hash"].filter(mask)).to_pylist()
            selected = pc.or_(selected, mask)
        if self._places:
            places = list(self._places_in(lineage))
            mask = pa.array(_flags(len(lineage), [number for number, _ in places]))
            selected = pc.or_(selected, mask)
        with self._lock:
            self._found_ids.update(ids)
            self._found_hashes.update(hashes)
            self._found_places.update(place for _, place in places)
        return selected.combine_chunks() if isinstance(selected, pa.ChunkedArray) else selected

    def not_found(self) -> list[dict[str, Any]]:
        """What was listed and has been in no table so far, in order."""
        return [
            *({"document_id": value} for value in sorted(self._ids - self._found_ids)),
            *({"text_hash": value.hex()} for value in sorted(self._hashes - self._found_hashes)),
            *(
                {"source": source, "row_group": group, "row": row}
                for source, group, row in sorted(
                    self._places - self._found_places, key=lambda place: (place[0], place[1] or 0, place[2])
                )
            ),
        ]

    def _places_in(self, lineage: Any) -> Iterator[tuple[int, _Place]]:
        among = _among(lineage["source"], self._source_names, self._sources)
        numbers = pc.indices_nonzero(among).to_pylist()
        some = lineage.select(["source", "row_group", "row"]).filter(among)
        columns = (some[name].to_pylist() for name in ("source", "row_group", "row"))
        for number, place in zip(numbers, zip(*columns, strict=True), strict=True):
            if place in self._places:
                yield number, place

    def _add(self, entry: Mapping[str, Any], where: str) -> None:
        value = {name: entry[name] for name in _NAMES if entry.get(name) is not None}
        if (
            entry.get("rows", 1) != 1
        ):  # as rejects have: to take down only the first of them would go unnoticed
            raise InputError(f"{where}: rows is {str(entry['rows'])[:80]}; give each row an entry of its own")
        for name, found in value.items():
            if type(found) not in _TYPES.get(name, (str,)):
                raise InputError(f"{where}: {name} is {str(found)[:80]!r}, which has the wrong type")
        if "document_id" in value:
            self._ids.add(value["document_id"])
        elif "text_hash" in value:
            self._hashes.add(_hash(value["text_hash"], where))
        elif "source" in value and "row" in value:
            self._places.add((value["source"], value.get("row_group"), value["row"]))
        else:
            raise InputError(
                f"{where}: names no document; expected document_id, or text_hash, or source and row (with row_group where "
                "lineage has one)"
            )


def read_document_list(uri: str) -> DocumentList:
    """Raises InputError: not there, too large, or an entry that names no document."""
    where = redact(uri)
    with open_input(uri) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InputError(f"{where}: more than {_MAX_BYTES:,} bytes; split the list")
    if data.startswith(b"PAR1"):
        return DocumentList(_rows(data, where), where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start:,})") from None
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and lines[0].lstrip().startswith("{"):
        return DocumentList(
            (parse_json_object(line.encode(), f"{where}, entry {n:,}") for n, line in enumerate(lines, 1)),
            where,
        )
    return DocumentList(({"document_id": line.rstrip("\r")} for line in lines), where)


def _rows(data: bytes, where: str) -> Iterator[Mapping[str, Any]]:
    try:
        table = read_table(data)
        names = [name for name in (*_NAMES, "rows") if name in table.column_names]
        for batch in table.select(names).to_batches(max_chunksize=1 << 14):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{where}: not a Parquet file that can be read ({type(error).__name__})") from None


def _hash(value: str | bytes, where: str) -> bytes:
    width = SCHEMA.field("text_hash").type.byte_width
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else value
    except ValueError:
        found = b""
    if len(found) != width:
        raise InputError(f"{where}: text_hash is not {2 * width} hexadecimal digits")
    return found


def _among(column: Any, listed: Set[Any], values: Any) -> Any:
    """Which of `column` [documents] are listed. values: the same as an Arrow array."""
    if len(values) <= len(column):
        return pc.is_in(column, value_set=values)
    # Arrow would make a table of all that is listed for each shard anew: of 10^6 ids, a quarter of a second.
    return pa.array([value in listed for value in column.to_pylist()], pa.bool_())


def _flags(count: int, at: list[int]) -> Any:
    import numpy as np

    flags = np.zeros(count, bool)
    flags[at] = True
    return flags
