"""Small Parquet files, already in memory, to Arrow tables."""

from __future__ import annotations

from typing import Any


def read_table(data: bytes, columns: list[str] | None = None) -> Any:
    """The file's rows (or only `columns` of them) as a pyarrow Table, page checksums verified.

    All of it happens on the calling thread. `pyarrow.parquet.read_table` hands `data` to threads of Arrow's own, and
    one that lets go of it while the interpreter ends aborts the process: about one short command in a hundred.

    Raises:
        pyarrow.ArrowException, OSError, ValueError, KeyError: the bytes are not such a file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False)
    return file.read(columns, use_threads=False)
