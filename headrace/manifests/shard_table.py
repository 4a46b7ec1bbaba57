"""The shards of a dataset as columns: 10^6 rows open in a fraction of a second.

Kept as an Arrow table and read column by column, never as one object a shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import InputError
from headrace.manifests.names import checked_name
from headrace.manifests.parquet import read_table

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRow:
    """One shard: its two files, their sizes in bytes and SHA-256 (hex), and what is inside.

    raw_*: the MDS file before compression. stored_*: the file as it lies in the dataset. They are equal for
    an uncompressed dataset.
    """

    unit: int
    name: str
    raw_bytes: int
    raw_sha256: str
    stored_bytes: int
    stored_sha256: str
    documents: int
    tokens: int
    lineage: str
    lineage_sha256: str


_INTEGERS = ("unit", "raw_bytes", "stored_bytes", "documents", "tokens")
_HASHES = ("raw_sha256", "stored_sha256", "lineage_sha256")
_NAMES = ("name", "lineage")
_LIMIT = 1 << 33  # a raw shard is under 2**32 bytes; sums over all shards stay far inside int64
_COLUMNS = tuple(field.name for field in fields(ShardRow))
# What a sequence is made of: compression and lineage do not enter a dataset's identity.
_CONTENT = ("raw_sha256", "tokens", "documents")


def _schema() -> pa.Schema:
    import pyarrow as pa

    def kind(column: str) -> pa.DataType:
        if column in _INTEGERS:
            return pa.int64()
        return pa.binary(32) if column in _HASHES else pa.string()

    return pa.schema([pa.field(column, kind(column), nullable=False) for column in _COLUMNS])


class ShardTable:
    """Ordered shards of a dataset; the order is the dataset's document order."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def from_rows(cls, rows: Iterable[ShardRow]) -> ShardTable:
        import pyarrow as pa

        columns: list[list[Any]] = [[] for _ in _COLUMNS]
        for row in rows:
            for column, value, name in zip(columns, astuple(row), _COLUMNS, strict=True):
                column.append(bytes.fromhex(value) if name in _HASHES else value)
        schema = _schema()
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        return cls(pa.Table.from_arrays(arrays, schema=schema))

    @classmethod
    def from_parquet(cls, data: bytes, where: str) -> ShardTable:
        """Raises `InputError` when `data` is not a shard table or a name in it leaves the dataset."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            table = read_table(data)
            table = table.select(list(_COLUMNS)).cast(_schema())
            table.validate(full=True)
        except (pa.ArrowException, KeyError, ValueError, OSError) as error:
            raise InputError(f"{where}: not a headrace shard table ({type(error).__name__})") from None
        for column in _NAMES:
            plain = pc.match_substring_regex(table[column], r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$")
            if not pc.all(plain).as_py() and len(table):
                bad = table[column].filter(pc.invert(plain))[0].as_py()
                checked_name(bad, where)
                raise InputError(f"{where}: shard file {bad!r} lies in a sub-directory; it is refused")
        for column in _INTEGERS:
            extent = pc.min_max(table[column]).as_py()
            if len(table) and not 0 <= extent["min"] <= extent["max"] < _LIMIT:
                raise InputError(
                    f"{where}: column {column} has numbers from {extent['min']:,} to {extent['max']:,}; expected "
                    f"0 to {_LIMIT - 1:,}, so the table is refused"
                )
        return cls(table)

    @classmethod
    def concatenate(cls, tables: Iterable[ShardTable]) -> ShardTable:
        """The shards of all tables, one table after another."""
        import pyarrow as pa

        return cls(pa.concat_tables([table._table for table in tables]))

    def replaced(self, rows: Mapping[int, Sequence[ShardRow]]) -> ShardTable:
        """The same shards, but for those at the given positions, in whose place others stand, or none."""
        parts, at = [], 0
        for position in sorted(rows):
            parts += [self._table.slice(at, position - at), ShardTable.from_rows(rows[position])._table]
            at = position + 1
        return ShardTable.concatenate(map(ShardTable, [*parts, self._table.slice(at)]))

    def to_parquet(self) -> bytes:
        """Deterministic for one version of pyarrow; page checksums on."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(
            self._table,
            sink,
            compression="zstd",
            compression_level=3,
            use_dictionary=False,
            row_group_size=1 << 17,
            write_page_checksum=True,
            store_schema=False,
        )
        return bytes(sink.getvalue())

    @property
    def num_shards(self) -> int:
        return int(self._table.num_rows)

    def column(self, name: str) -> NDArray[np.int64]:
        """An integer column as int64 [num_shards]."""
        assert name in _INTEGERS
        return self._table[name].to_numpy()  # type: ignore[no-any-return]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens in each shard, int64 [num_shards]."""
        return self.column("tokens")

    @property
    def documents(self) -> NDArray[np.int64]:
        """Documents in each shard, int64 [num_shards]."""
        return self.column("documents")

    def names(self) -> list[str]:
        """The stored files of all shards in order, and then of all their lineage."""
        return [name for column in _NAMES for name in self._table[column].to_pylist()]

    def row(self, index: int) -> ShardRow:
        return _rows(self._table.slice(index, 1))[0]

    def rows(self) -> list[ShardRow]:
        """All rows as objects: for tools, not for a dataset of 10^6 shards on a hot path."""
        return _rows(self._table)

    @property
    def digest(self) -> str:
        """SHA-256 over every logical column: the same for any Parquet writer."""
        return self._digest(_COLUMNS)

    @property
    def content_digest(self) -> str:
        """SHA-256 over what the token stream is made of: raw hashes, token and document counts, in order."""
        return self._digest(_CONTENT)

    def _digest(self, columns: tuple[str, ...]) -> str:
        hasher = hashlib.sha256()
        for name in columns:
            hasher.update(f"{name}:{self.num_shards}\n".encode())
            if name in _INTEGERS:
                hasher.update(np.ascontiguousarray(self.column(name), dtype="<i8").tobytes())
            else:
                for buffer in _value_bytes(self._table[name]):
                    hasher.update(buffer)
        return hasher.hexdigest()


def _rows(table: pa.Table) -> list[ShardRow]:
    return [
        ShardRow(**{name: value.hex() if name in _HASHES else value for name, value in row.items()})
        for row in table.to_pylist()
    ]


def _value_bytes(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values of a string or fixed-size binary column as bytes, whatever its chunks and offsets.

    Strings are preceded by their lengths (int64), so that no two columns give the same bytes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type):
        yield np.ascontiguousarray(pc.binary_length(column).to_numpy(), dtype="<i8").tobytes()
    for chunk in column.chunks:
        if not len(chunk):
            continue
        if pa.types.is_string(column.type):
            offsets = np.frombuffer(chunk.buffers()[1], dtype=np.int32)[chunk.offset :][: len(chunk) + 1]
            yield chunk.buffers()[2][int(offsets[0]) : int(offsets[-1])]
        else:
            width = column.type.byte_width
            yield chunk.buffers()[1][chunk.offset * width : (chunk.offset + len(chunk)) * width]
