"""A small odd corpus, a tokenizer trained on it, and the command that tokenizes it, for the tests of this directory."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from headrace.dataeng.sources.tfrecord import TFRecordWriter
from tests.s3 import S3Server

ROOT = Path(__file__).parents[2]
EOS = "<|endoftext|>"
ODDITIES: list[str | None] = [
    None,
    "",
    " ",
    "\n\t \r\n",
    "\0",
    "a\0b\0",
    "\N{GRINNING FACE}\N{MUSICAL SYMBOL G CLEF}\U00020000",
    f"text that spells {EOS} and <s> is text",
    EOS,
    "\ufeffbyte order mark",
    "line\u2028separator\u2029paragraph\x85next",
    "e\u0301 is not é",
    "x",
    "huge " * 6_000,
]
WORDS = "a token flows down the channel to a mill wheel whose shaft turns day and night été Straße 水車 мельница".split()


def some_texts(seed: int, count: int) -> list[str | None]:
    """`count` texts, oddities among them, the same for the same seed."""
    draw = random.Random(seed)
    texts: list[str | None] = []
    for number in range(count):
        if number % 9 == 0:
            texts.append(ODDITIES[(number // 9) % len(ODDITIES)])
        else:
            texts.append(" ".join(draw.choices(WORDS, k=draw.randint(1, 120))))
    return texts


def write_parquet(path: Path, texts: list[str | None], row_group_size: int = 16) -> None:
    ids = [f"{path.stem}-{number}" for number in range(len(texts))]
    table = pa.table({"text": pa.array(texts, pa.string()), "id": ids})
    pq.write_table(table, path, row_group_size=row_group_size, write_page_checksum=True)


def write_tfrecord(path: Path, texts: list[str | None]) -> None:
    with path.open("wb") as file, TFRecordWriter(file) as writer:
        for number, text in enumerate(texts):
            features: dict[str, bytes | str | int] = {"id": f"{path.stem}-{number}"}
            writer.write(features if text is None else {**features, "text": text})


def write_corpus(directory: Path, count: int = 120) -> Path:
    """Two Parquet and two TFRecord files of `count` documents each."""
    directory.mkdir(parents=True)
    for seed, name in enumerate(["a.parquet", "b.tfrecord", "c.parquet", "d.tfrecord"]):
        write = write_parquet if name.endswith("parquet") else write_tfrecord
        write(directory / name, some_texts(seed, count))
    return directory


def write_every_format(directory: Path, count: int = 40) -> Path:
    """A file of `count` documents in each format and compression that is read."""
    directory.mkdir(parents=True)
    texts = [some_texts(seed, count) for seed in range(9)]
    write_parquet(directory / "a.parquet", texts[0])
    table = pa.table({"text": pa.array(texts[1], pa.string()), "id": [f"b-{n}" for n in range(count)]})
    pq.write_table(
        table, directory / "b.parquet", row_group_size=16, compression="zstd", data_page_version="2.0"
    )
    write_tfrecord(directory / "c.tfrecord", texts[2])
    write_tfrecord(directory / "plain", texts[3])
    (directory / "d.tfrecord.gz").write_bytes(gzip.compress((directory / "plain").read_bytes(), mtime=0))
    (directory / "plain").unlink()
    (directory / "e.jsonl").write_bytes(_json_lines("e", texts[4]))
    (directory / "f.jsonl.gz").write_bytes(gzip.compress(_json_lines("f", texts[5]), mtime=0))
    (directory / "g.jsonl.zst").write_bytes(zstandard.compress(_json_lines("g", texts[6])))
    for name, begin, part in (
        ("h.arrow", pa.ipc.new_file, texts[7]),
        ("i.arrow", pa.ipc.new_stream, texts[8]),
    ):
        table = pa.table({"text": pa.array(part, pa.string()), "id": [f"{name}-{n}" for n in range(count)]})
        with begin(directory / name, table.schema) as writer:
            writer.write_table(table, max_chunksize=17)
    return directory


def _json_lines(name: str, texts: list[str | None]) -> bytes:
    rows = [{"id": f"{name}-{number}", "text": text} for number, text in enumerate(texts)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def write_files(directory: Path, count: int = 120) -> Path:
    """A tree with a file for each of `count` documents."""
    for number, text in enumerate(some_texts(17, count)):
        path = directory / f"part-{number % 7}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((text or "").encode())
    return directory


def write_tokenizer(path: Path, vocab_size: int = 400) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS, "<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for text in some_texts(0, 100) if text], trainer)
    tokenizer.save(str(path))
    return path


@dataclass(frozen=True)
class CommandLine:
    """`headrace tokenize` on one corpus with options that do not change between runs."""

    corpus: Path | str
    tokenizer: Path
    options: tuple[str, ...] = ("--shard-bytes", "4k", "--id-column", "id", "--max-rejects", "0.2")
    directory: Path | None = None  # to work in

    def arguments(self, out: Path | str, *more: str) -> list[str]:
        return [
            sys.executable, "-m", "headrace", "tokenize", "--out", str(out), "--tokenizer", str(self.tokenizer),
            *self.options, *more, str(self.corpus),
        ]  # fmt: skip

    def run(self, out: Path | str, *more: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.arguments(out, *more),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.directory,
            env=self._environment(),
        )
        assert done.returncode == code, done.stderr
        return done

    def _environment(self) -> dict[str, str]:
        """With headrace on the path, wherever it works."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

    def start(self, out: Path | str, *more: str) -> subprocess.Popen[str]:
        """In a process group of its own, so that all of it can be killed."""
        return subprocess.Popen(
            self.arguments(out, *more),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=self.directory,
            env=self._environment(),
        )


def file_hashes(directory: Path) -> dict[str, str]:
    """SHA-256 of every file, hidden ones included; directories count too."""
    found = {}
    for root, directories, files in os.walk(directory):
        for name in directories:
            found[f"{name}/"] = "directory"
        for name in files:
            path = Path(root) / name
            found[path.relative_to(directory).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def object_hashes(server: S3Server, uri: str) -> dict[str, str]:
    filesystem, root = server.filesystem(), uri.removeprefix("s3://")
    return {
        key.removeprefix(f"{root}/"): hashlib.sha256(filesystem.cat_file(key)).hexdigest()
        for key in filesystem.find(root)
    }
