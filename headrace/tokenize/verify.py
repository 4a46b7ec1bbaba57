"""Hold a dataset to its manifest: every byte, count and name; and when a shard is damaged, find its documents.

A shard's hash says that something is wrong, not what. Lineage does: the lengths in it fix where each document lies,
and where the tokenizer can be undone, the hash of its text tells a good document from a damaged one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.dataeng import mds
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.lineage import read_lineage, text_hash
from headrace.errors import DamageError, InputError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import plain_name
from headrace.manifests.parquet import read_table
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.publish import REJECTS, SOURCES, TOKENIZER, index_file
from headrace.tokenize.tokenizers import load


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One file that is not what it was. `documents` are those that may be affected, as lineage rows."""

    file: str
    problem: str
    documents: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was checked and what was found; `bytes` are stored bytes read."""

    manifest: str
    shards: int
    documents: int
    tokens: int
    bytes: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(uri: str, *, threads: int | None = None, on_shard: Callable[[int], None] | None = None) -> Report:
    """Reads everything. `on_shard` is told how many shards are done.

    Raises:
        InputError: there is no dataset.
        DamageError: the manifest and the shard table do not belong together, so nothing else can be checked.
    """
    dataset = Dataset.open(uri)
    problems = list(_file_problems(dataset))
    rows = dataset.shards.rows()
    read_bytes = sum(entry.bytes for entry in dataset.manifest.files.values())
    workers = threads if threads is not None else min(16, os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        for done, found in enumerate(pool.map(lambda row: _shard_problems(dataset, row), rows), start=1):
            problems += found
            if on_shard is not None:
                on_shard(done)
    counts = dataset.manifest.counts
    return Report(
        manifest=dataset.manifest.hash,
        shards=counts.shards,
        documents=counts.documents,
        tokens=counts.tokens,
        bytes=read_bytes + sum(row.stored_bytes for row in rows),
        problems=problems,
    )


def _file_problems(dataset: Dataset) -> Iterator[Problem]:
    """Every file but the shards, and what they say against the manifest."""
    manifest = dataset.manifest
    contents: dict[str, bytes] = {}
    for name, entry in manifest.files.items():
        try:
            data = dataset.store.read(name)
        except FileNotFoundError:
            yield Problem(file=name, problem="missing")
            continue
        if problem := _differs(data, entry.bytes, entry.sha256):
            yield Problem(file=name, problem=problem)
        else:
            contents[plain_name(name)] = data
    counts, table = manifest.counts, dataset.shards
    if int(table.tokens.sum()) != counts.tokens or int(table.documents.sum()) != counts.documents:
        yield Problem(file="manifest.json", problem="its counts are not the sums over the shard table")
    if sum(manifest.rejects.values()) != counts.rejected:
        yield Problem(file="manifest.json", problem="its rejects by reason do not add up")
    if dataset.is_newest:  # it lists the newest version, and no other has one
        yield from _index_problems(dataset)
    yield from _table_problems(dataset, contents)


def _index_problems(dataset: Dataset) -> Iterator[Problem]:
    try:
        found = dataset.store.read(mds.INDEX)
    except FileNotFoundError:
        yield Problem(file=mds.INDEX, problem="missing")
        return
    if found != index_file(dataset.manifest, dataset.shards):
        yield Problem(file=mds.INDEX, problem="does not list the shards of the shard table")


def _table_problems(dataset: Dataset, contents: dict[str, bytes]) -> Iterator[Problem]:
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = dataset.manifest.counts
    try:
        if SOURCES in contents:
            table = read_table(contents[SOURCES])
            for name in ("rows", "documents", "rejected", "tokens", "text_bytes"):
                if (pc.sum(table[name]).as_py() or 0) != getattr(counts, name):
                    yield Problem(file=SOURCES, problem=f"its {name} do not add up to the manifest's")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        yield Problem(file=SOURCES, problem=f"not a table of sources ({type(error).__name__})")
    try:
        if REJECTS in contents:
            reasons = read_table(contents[REJECTS], ["reason"])["reason"]
            found = {entry["values"]: entry["counts"] for entry in pc.value_counts(reasons).to_pylist()}
            if found != dataset.manifest.rejects:
                yield Problem(file=REJECTS, problem="its rows by reason are not the manifest's")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        yield Problem(file=REJECTS, problem=f"not a table of rejects ({type(error).__name__})")


def _differs(data: bytes, num_bytes: int, sha256: str) -> str | None:
    if len(data) != num_bytes:
        return f"{len(data):,} bytes, {num_bytes:,} were written"
    found = sha256_hex(data)
    return None if found == sha256 else f"SHA-256 is {found[:16]}..., {sha256[:16]}... was written"


def _shard_problems(dataset: Dataset, row: ShardRow) -> list[Problem]:
    problems: list[Problem] = []
    lineage = _lineage(dataset, row, problems)
    try:
        stored = dataset.store.read(row.name)
    except FileNotFoundError:
        return [*problems, Problem(file=row.name, problem="missing", documents=_documents(lineage))]
    raw, problem = stored, _differs(stored, row.stored_bytes, row.stored_sha256)
    if row.name.endswith(".zstd"):
        try:
            raw = decompress(stored, row.raw_bytes)
        except DamageError as error:
            problem = problem or str(error)
            return [*problems, Problem(file=row.name, problem=problem, documents=_documents(lineage))]
        problem = problem or _differs(raw, row.raw_bytes, row.raw_sha256)
    elif (row.raw_bytes, row.raw_sha256) != (row.stored_bytes, row.stored_sha256):
        problem = problem or "not compressed, yet the shard table gives two sizes or hashes for it"
    if problem is not None:
        suspects = _suspects(dataset, row, raw, lineage)
        return [*problems, Problem(file=row.name, problem=problem, documents=suspects)]
    manifest = dataset.manifest
    try:
        lengths = mds.check_shard(
            raw,
            dtype=manifest.dtype,
            shard_bytes=manifest.shard_bytes,
            vocab_size=manifest.tokenizer.vocab_size,
            where=row.name,
        )
    except DamageError as error:
        return [*problems, Problem(file=row.name, problem=str(error), documents=_documents(lineage))]
    if len(lengths) != row.documents or int(lengths.sum()) != row.tokens:
        problems.append(
            Problem(file=row.name, problem="its documents or tokens are not as many as the table says")
        )
    elif lineage is not None and not np.array_equal(lineage["tokens"].to_numpy(), lengths):
        problems.append(
            Problem(file=row.lineage, problem="its lengths are not those of the shard's documents")
        )
    return problems


def _lineage(dataset: Dataset, row: ShardRow, problems: list[Problem]) -> Any:
    """The shard's lineage if it is intact, else None and a problem."""
    try:
        data = dataset.store.read(row.lineage)
    except FileNotFoundError:
        problems.append(Problem(file=row.lineage, problem="missing"))
        return None
    if problem := _differs(data, len(data), row.lineage_sha256):
        problems.append(Problem(file=row.lineage, problem=problem))
        return None
    return read_lineage(data, row.lineage)


def decompress(stored: bytes, raw_bytes: int) -> bytes:
    """A zstd shard unpacked, never to more than `raw_bytes`. Raises DamageError."""
    import zstandard

    try:
        declared = zstandard.get_frame_parameters(stored).content_size
        if declared != raw_bytes:
            raise DamageError(f"unpacks to {declared:,} bytes, {raw_bytes:,} were packed")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamageError(f"zstd cannot unpack it ({error})") from None


def _documents(lineage: Any) -> list[dict[str, Any]]:
    if lineage is None:
        return []
    rows = lineage.drop_columns(["text_hash"]).to_pylist()
    return [{"document": number, **row} for number, row in enumerate(rows)]


def _suspects(dataset: Dataset, row: ShardRow, raw: bytes, lineage: Any) -> list[dict[str, Any]]:
    """The documents of a damaged shard that cannot be shown to be intact."""
    documents = _documents(lineage)
    if not documents or len(lineage) != row.documents:
        return documents
    manifest = dataset.manifest
    try:
        tokenizer = load(dataset.read(TOKENIZER), TOKENIZER)
    except (DamageError, InputError):  # it is a problem of its own
        return documents
    lengths = lineage["tokens"].to_numpy()
    sizes = mds.sample_bytes(lengths, manifest.dtype)
    begin = mds.overhead_bytes(len(lengths), manifest.dtype, manifest.shard_bytes)
    ends = begin + np.cumsum(sizes)
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    before = 0 if manifest.tokenizer.bos_id is None else 1
    after = 0 if manifest.tokenizer.eos_id is None else 1
    expected_hashes = lineage["text_hash"].to_pylist()
    suspects = []
    for document, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
        sample = raw[end - length * dtype.itemsize : end]
        ids = np.frombuffer(sample, dtype) if len(sample) == length * dtype.itemsize else np.empty(0, dtype)
        text = tokenizer.decode(ids[before : len(ids) - after].tolist(), skip_special_tokens=False)
        if text_hash(text.encode()) != expected_hashes[document]:
            suspects.append(documents[document])
    return suspects or documents
