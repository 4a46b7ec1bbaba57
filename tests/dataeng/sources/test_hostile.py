"""Files that ask for more than a reader should give: told by name, in memory that they do not decide.

Each is read in a process of its own, whose peak is what the kernel says of it.
"""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from headrace.dataeng.sources.tfrecord import masked_crc
from tests.dataeng.sources.reading import read_all

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc, which is Linux"
)
READ = """
import json, sys
from pathlib import Path
from headrace.errors import HeadraceError
from headrace.dataeng.sources.base import read_slice
from headrace.dataeng.sources.discover import discover
rows, rejects = 0, {}
try:
    found = discover([sys.argv[1]])
    for source in found.sources:
        for part in source.slices:
            for batch in read_slice(source, part, found.columns):
                rows += len(batch.texts)
                for reason in batch.rejects.values():
                    rejects[reason] = rejects.get(reason, 0) + 1
    said = ""
except HeadraceError as error:
    said = str(error)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([rows, rejects, said, int(peak.split()[1]) >> 10]))
"""


def read(path: Path) -> tuple[int, dict[str, int], str, int]:
    """(rows, rejects by reason, what was refused, peak in MiB)."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    rows, rejects, said, peak = json.loads(done.stdout)
    return rows, rejects, said, peak


def build(code: str, path: Path) -> Path:
    """Runs `code` on `path` in another process, whose memory is not ours."""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=120)
    return path


@pytest.mark.parametrize("dictionary", [False, True], ids=["data page", "dictionary page"])
def test_a_page_of_blanks_that_packs_to_nothing_is_refused_by_its_header(
    tmp_path: Path, dictionary: bool
) -> None:
    code = f"""
import sys, pyarrow as pa, pyarrow.parquet as pq
text = pa.array([b" " * (300 << 20)]).view(pa.string())
pq.write_table(pa.table({{"text": text}}), sys.argv[1], compression="zstd", use_dictionary={dictionary},
    write_statistics=False, dictionary_pagesize_limit=1 << 30)
"""
    path = build(code, tmp_path / "a.parquet")
    assert path.stat().st_size < 200_000
    rows, _, said, peak = read(path)
    assert rows == 0
    assert "a.parquet: row group 0 (1 rows) is not read: the page at byte 4 unpacks from" in said
    assert "--max-document-bytes" in said
    assert peak < 400


def test_a_large_page_of_text_is_read(tmp_path: Path) -> None:
    """What packs as text does is no bomb."""
    texts = [f"{number} " * 20_000 for number in range(64)]
    pq.write_table(
        pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False, compression="snappy"
    )
    assert read_all(tmp_path / "a.parquet", max_document_bytes=1 << 20).texts == texts


def test_a_record_of_two_gigabytes_is_passed_over_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    length = struct.pack("<Q", 2**31 - 1)
    with path.open("wb") as file:
        file.write(length + struct.pack("<I", masked_crc(length)))
        file.truncate(16 + 2**31 - 1)  # a hole: no disk is needed for it
    rows, rejects, said, peak = read(path)
    assert (rows, rejects, said) == (1, {"too_large": 1}, "")
    assert peak < 300


def test_a_line_that_a_small_file_unpacks_to_is_one_reject(tmp_path: Path) -> None:
    code = """
import gzip, sys, zstandard
begin = zstandard.ZstdCompressor().stream_writer if sys.argv[1].endswith("zst") else (
    lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1))
with open(sys.argv[1], "wb") as file, begin(file) as packed:
    packed.write(b'{"text": "good"}\\n{"text": "')
    for _ in range(300):
        packed.write(b"x" * (1 << 20))
    packed.write(b'"}\\n{"text": "good"}\\n')
"""
    for name in ("a.jsonl.gz", "a.jsonl.zst"):
        rows, rejects, said, peak = read(build(code, tmp_path / name))
        assert (rows, rejects, said) == (3, {"too_large": 1}, "")
        assert peak < 500


def test_json_of_a_million_levels_is_a_reject(tmp_path: Path) -> None:
    deep = b'{"text": "a", "x": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}\n"
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' + deep)
    rows, rejects, _, peak = read(tmp_path / "a.jsonl")
    assert (rows, rejects) == (2, {"not_json": 1})
    assert peak < 300


def _parquet_of(schema: bytes, elements: int) -> bytes:
    """A Parquet file of no rows with these schema elements, which are Thrift structs."""
    head = b"\x15\x02" + b"\x19" + b"\xfc" + _varint(elements)  # version 1; a list of structs
    footer = head + schema + b"\x16\x00" + b"\x19\x0c" + b"\x00"  # no rows, no row groups
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_a_parquet_schema_of_a_million_levels_is_refused_before_arrow_follows_it(tmp_path: Path) -> None:
    group = b"\x35\x02\x18\x01g\x15\x02\x00"  # optional group g of one child
    leaf = b"\x15\x0c\x25\x02\x18\x01x\x00"
    (tmp_path / "a.parquet").write_bytes(_parquet_of(group * 1_000_000 + leaf, 1_000_001))
    _, _, said, peak = read(tmp_path / "a.parquet")
    assert "a.parquet: not read: a schema" in said
    (tmp_path / "b.parquet").write_bytes(_parquet_of(group * 10_000 + leaf, 10_001))
    assert "b.parquet: not read: a schema nested deeper than 128 levels" in read(tmp_path / "b.parquet")[2]
    assert peak < 300


def test_a_schema_of_a_hundred_thousand_columns_is_read(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("text", pa.string()), *(pa.field(f"c{n}", pa.int8()) for n in range(100_000))]
    )
    pq.ParquetWriter(tmp_path / "a.parquet", schema, store_schema=False).close()
    rows, _, said, peak = read(tmp_path / "a.parquet")
    assert (rows, said) == (0, "")
    assert peak < 900


@pytest.mark.parametrize("shift", range(4))
def test_characters_of_four_bytes_across_every_border_of_reading_stay_whole(
    tmp_path: Path, shift: int
) -> None:
    text = "x" * shift + "\U0001f600\0" * 600_000
    data = json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n"
    data = data.replace(b"\0", b"\\u0000")
    for name, packed in (
        ("a.jsonl", data),
        ("a.jsonl.gz", gzip.compress(data, 1)),
        ("a.jsonl.zst", zstandard.compress(data)),
    ):
        (tmp_path / name).write_bytes(packed)
        assert read_all(tmp_path / name, slice_bytes=1 << 20).texts == [text]


@pytest.mark.parametrize("escape", [rb"\ud83d", rb"\ude00", rb"\ud83d\ud83d"])
def test_half_of_a_surrogate_pair_is_a_reject_and_a_whole_one_a_character(
    tmp_path: Path, escape: bytes
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\\ud83d\\ude00"}\n{"text": "' + escape + b'"}\n')
    rows = read_all(tmp_path / "a.jsonl")
    assert rows.texts == ["\U0001f600"]
    assert list(rows.rejects.values()) == ["not_json"]
