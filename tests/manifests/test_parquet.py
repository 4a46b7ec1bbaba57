import subprocess
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.manifests.parquet import read_table


def encoded(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=2, write_page_checksum=True)
    return bytes(sink.getvalue())


def test_rows_and_chosen_columns_are_read() -> None:
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert read_table(encoded(table)).to_pylist() == table.to_pylist()
    assert read_table(encoded(table), ["b"]).to_pylist() == table.select(["b"]).to_pylist()


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_no_thread_of_arrow_takes_part() -> None:
    """One that holds the bytes when the interpreter ends aborts the process."""
    script = (
        "import os, sys; from headrace.manifests.parquet import read_table\n"
        "import pyarrow.parquet\n"  # which may start threads of its own
        "before = len(os.listdir('/proc/self/task'))\n"
        "read_table(sys.stdin.buffer.read())\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    data = encoded(pa.table({name: list(range(1000)) for name in "abcdefgh"}))
    done = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
    assert done.stdout.strip() == b"0"


def test_a_damaged_page_is_seen() -> None:
    data = bytearray(encoded(pa.table({"a": [1, 2, 3]})))
    data[30] ^= 1
    with pytest.raises((pa.ArrowException, OSError)):
        read_table(bytes(data))
