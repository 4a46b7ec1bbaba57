"""Real text for benchmarks: the files below some directories, as documents in zstd Parquet.

    python -m benchmarks.corpus --out DIR --megabytes 800 ROOT ...

Good roots are unpacked Debian packages: linux-source-6.1 and gcc-12-source hold over a gigabyte of code and prose. Without any the
interpreter's own standard library is taken, some ten MB.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_TEXT = frozenset(
    ".c .cc .cpp .dts .dtsi .go .h .hpp .html .java .js .json .md .pl .pm .po .py .pyi .rs .rst .S .tcl .txt .xml .yaml".split()
)
_LARGEST = 2_000_000


def _texts(roots: Sequence[Path], num_bytes: int) -> Iterator[str]:
    """Each text once, in an order that mixes the roots and is the same on every machine."""
    paths = sorted(path for root in roots for path in root.rglob("*") if path.suffix in _TEXT)
    random.Random(1).shuffle(paths)
    seen: set[bytes] = set()
    size = 0
    for path in paths:
        if size >= num_bytes:
            return
        try:
            data = path.read_bytes()
            text = data.decode()
        except (OSError, UnicodeDecodeError):
            continue
        digest = hashlib.sha256(data).digest()
        if not 50 < len(data) < _LARGEST or not text.strip() or digest in seen:
            continue
        seen.add(digest)
        size += len(data)
        yield text


def write_corpus(directory: Path, megabytes: int, files: int, roots: Sequence[Path] = ()) -> None:
    """Parquet files with the columns text and id, in row groups of 1,000 documents."""
    documents = list(_texts(roots or [Path(sysconfig.get_path("stdlib")).resolve()], megabytes * 1_000_000))
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part = documents[number::files]
        table = pa.table({"text": part, "id": [f"{number}-{i}" for i in range(len(part))]})
        pq.write_table(
            table,
            directory / f"{number:03d}.parquet",
            compression="zstd",
            row_group_size=1000,
            write_page_checksum=True,
        )


def write_lines(directory: Path, documents: int, file: Path) -> None:
    """`documents` of one line each out of a corpus, as one Parquet file; where the corpus has too few they come again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema({"text": pa.string(), "id": pa.string()})
    written = 0
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        while written < documents:
            for path in sorted(directory.glob("*.parquet")):
                texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
                lines = [line for text in texts for line in text.splitlines() if 20 < len(line) < 120]
                lines = lines[: documents - written]
                ids = [str(written + i) for i in range(len(lines))]
                writer.write_table(pa.table([lines, ids], schema), row_group_size=100_000)
                written += len(lines)


def corpus_bytes(directory: Path) -> int:
    """UTF-8 bytes of the texts."""
    return sum(
        pc.sum(pc.binary_length(pq.read_table(path, columns=["text"])["text"])).as_py()
        for path in directory.glob("*.parquet")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("roots", nargs="*", type=Path, metavar="ROOT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=800)
    parser.add_argument("--files", type=int, default=8)
    args = parser.parse_args()
    write_corpus(args.out, args.megabytes, args.files, args.roots)
    print(f"{corpus_bytes(args.out) / 1e6:,.0f} MB of text in {args.files} files")


if __name__ == "__main__":
    main()
