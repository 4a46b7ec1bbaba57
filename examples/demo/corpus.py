"""A real corpus that every machine has: the standard library of the Python that runs this."""

from __future__ import annotations

import hashlib
import io
import sysconfig
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.dataeng.sources.tfrecord import TFRecordWriter

NUM_FILES = 2  # of each kind, so that a dataset has more than one source file
ROW_GROUP = 128  # documents; several row groups a file are several units of work


@dataclass(frozen=True, slots=True)
class Document:
    """`id` is the file's path below the library's directory; `text` has the line ends that Python reads."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Corpus:
    documents: tuple[Document, ...]
    unreadable: tuple[tuple[str, str], ...]  # (id, reason): named, never silently left out

    @property
    def num_bytes(self) -> int:
        return sum(len(document.text.encode()) for document in self.documents)

    @property
    def digest(self) -> str:
        """Names this corpus: another Python version has another library."""
        sha = hashlib.sha256()
        for document in self.documents:
            sha.update(f"{document.id}\0{len(document.text)}\0{document.text}".encode())
        return sha.hexdigest()


def read_standard_library() -> Corpus:
    """Every `.py` file of the standard library, in the order of its path; installed packages are not part of it."""
    root = Path(sysconfig.get_path("stdlib"))
    documents, unreadable = [], []
    for name in sorted(_python_files(root)):
        try:
            documents.append(Document(name, decode((root / name).read_bytes())))
        except (SyntaxError, UnicodeError, LookupError) as error:
            unreadable.append((name, f"{type(error).__name__}: {error}".splitlines()[0]))
    return Corpus(tuple(documents), tuple(unreadable))


def decode(source: bytes) -> str:
    """As Python decodes a source file (PEP 263: a byte order mark or a coding line, else UTF-8).

    Raises SyntaxError or UnicodeError where Python would refuse it.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    text = io.TextIOWrapper(io.BytesIO(source), encoding).read()  # universal newlines, as tokenize.open
    text.encode()  # what decodes to a lone surrogate is no text either
    return text


def _python_files(root: Path) -> Iterator[str]:
    for path in root.rglob("*.py"):
        relative = path.relative_to(root)
        if path.is_file() and not {"site-packages", "dist-packages", "__pycache__"} & set(relative.parts):
            yield relative.as_posix()


def write_parquet(documents: Sequence[Document], directory: Path) -> list[Path]:
    schema = pa.schema([("path", pa.string()), ("text", pa.string())])
    paths = []
    for number, part in enumerate(split(documents, NUM_FILES)):
        path = directory / f"library-{number}.parquet"
        columns = [[document.id for document in part], [document.text for document in part]]
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=ROW_GROUP, compression="zstd")
        paths.append(path)
    return paths


def write_tfrecord(documents: Sequence[Document], directory: Path) -> list[Path]:
    paths = []
    for number, part in enumerate(split(documents, NUM_FILES)):
        path = directory / f"library-{number}.tfrecord"
        with path.open("wb") as file, TFRecordWriter(file) as writer:
            for document in part:
                writer.write({"path": document.id, "text": document.text})
        paths.append(path)
    return paths


def split(documents: Sequence[Document], parts: int) -> list[list[Document]]:
    """Contiguous parts whose sizes differ by at most one; the first ones take the rest."""
    size, rest = divmod(len(documents), parts)
    stream = iter(documents)
    return [list(islice(stream, size + (number < rest))) for number in range(parts)]
