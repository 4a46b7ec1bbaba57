"""The real mosaicml-streaming opens our shards: every document, every id, raw and compressed, hashes checked by it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from tokenizers import Tokenizer

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import INDEX, IndexEntry, encode_index, encode_shard
from headrace.tokenize.takedown import take_down
from tests.corpus import END_OF_TEXT, make_texts, tokenize_corpus
from tests.tokenize.small import all_documents, publish_small
from tests.tokenize.test_versions import where

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        importlib.util.find_spec("streaming") is None and "CI" not in os.environ,
        reason="mosaicml-streaming is not installed; `make setup` installs it",
    ),
]

# Around every width in which MDS writes an array's length (1, 2 and 4 bytes), and around nothing.
LENGTHS = [1, 2, 3, 255, 256, 257, 65535, 65536, 1]


def read(directory: Path, work: Path) -> dict[str, Any]:
    """What `streaming.StreamingDataset(local=directory)` yields, in order."""
    work.mkdir(exist_ok=True)
    output = work / "found.json"
    subprocess.run(
        [sys.executable, HERE / "read_with_streaming.py", directory, output],
        env={**os.environ, "PYTHONPATH": str(HERE / "standins"), "TMPDIR": str(work)},
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    assert found["version"] == "0.13.0"
    assert "standins" not in found["file"]
    return found


def write(
    directory: Path, shards: Sequence[Sequence[np.ndarray[Any, Any]]], dtype: str, compression: str
) -> None:
    directory.mkdir()
    entries = []
    for number, documents in enumerate(shards):
        lengths = np.array([len(document) for document in documents], np.int64)
        raw = encode_shard(np.concatenate(documents), lengths, shard_bytes=1 << 20)
        name = f"shard.{number:06d}-000.mds"
        stored = None
        data = raw
        if compression != "none":
            data = zstandard.ZstdCompressor(level=3).compress(raw)
            stored = (f"{name}.zstd", len(data), hashlib.sha256(data).hexdigest())
        (directory / (stored[0] if stored else name)).write_bytes(data)
        entries.append(
            IndexEntry(
                name=name,
                raw_bytes=len(raw),
                raw_sha256=hashlib.sha256(raw).hexdigest(),
                documents=len(documents),
                stored=stored,
            )
        )
    index = encode_index(entries, dtype=dtype, shard_bytes=1 << 20, compression=compression)
    (directory / INDEX).write_bytes(index)


@pytest.mark.parametrize("compression", ["none", "zstd:3"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_streaming_reads_every_length_and_dtype(dtype: str, compression: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    top = np.iinfo(dtype).max
    shards = [
        [rng.integers(0, top, size, np.uint32, endpoint=True).astype(dtype) for size in LENGTHS],
        [np.array([top], dtype)],
    ]
    write(tmp_path / "data", shards, dtype, compression)
    found = read(tmp_path / "data", tmp_path / "work")
    assert found["dtypes"] == [dtype]
    assert found["shards"] == len(shards)
    assert found["documents"] == [document.tolist() for shard in shards for document in shard]


@pytest.mark.parametrize("compression", ["none", "zstd:3"])
def test_streaming_reads_what_headrace_tokenized(compression: str, tmp_path: Path) -> None:
    """From text to ids through the command line; the ids expected come from the tokenizer alone."""
    options = ["--compression", compression, "--shard-bytes", "16384"]
    dataset = tokenize_corpus(tmp_path, *options, num_documents=200)
    found = read(dataset, tmp_path / "work")
    tokenizer = Tokenizer.from_file(str(dataset / "tokenizer.json"))
    end = tokenizer.token_to_id(END_OF_TEXT)
    assert found["documents"] == [[*tokenizer.encode(text).ids, end] for text in make_texts(200)]
    assert found["shards"] > 4


def test_streaming_reads_the_newest_version(tmp_path: Path) -> None:
    """After documents were added and others taken down, which leaves shards of other numbers in between."""
    root = tmp_path / "d"
    publish_small(root, {"a": [300, 5, 200], "b": [400]}, compression="zstd:3")
    publish_small(root, {"c": [700, 5]}, onto=True, compression="zstd:3")
    take_down(str(root), where("tokens = 5"))
    found = read(root, tmp_path / "work")
    assert found["documents"] == [list(tokens) for *_, tokens in all_documents(Dataset.open(root))]
    assert len(found["documents"]) == 4


def test_streaming_refuses_a_shard_whose_bytes_are_not_those_of_the_index(tmp_path: Path) -> None:
    """The hashes in our index are the ones streaming checks: otherwise this would pass unseen."""
    write(tmp_path / "data", [[np.arange(100, dtype=np.uint16)]], "uint16", "zstd:3")
    shard = tmp_path / "data" / "shard.000000-000.mds.zstd"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    with pytest.raises(subprocess.CalledProcessError):
        read(tmp_path / "data", tmp_path / "work")
