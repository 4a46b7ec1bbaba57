"""Hold a dataset to its manifest: every byte, count and name.

tables, index, tokenizer ──> then shard after shard, a few at a time ──> Report
                                 └─ state: which are intact, to continue from
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.dataeng import mds
from headrace.dataeng.dataset import Dataset
from headrace.dataeng.threads import map_ahead
from headrace.dataeng.versions import archived
from headrace.errors import DamageError, InputError
from headrace.manifests.dataset import archived_manifest, plain_name
from headrace.manifests.parquet import read_table
from headrace.tokenize.head import index_file
from headrace.tokenize.publish import REJECTS, SOURCES
from headrace.tokenize.shard_check import Problem, ShardChecker, differs
from headrace.tokenize.verify_state import VerifyState

_REMOTE_THREADS: Final = 16  # one connection does not fill a network
_BUFFER_BYTES: Final = 1 << 30  # for the shards in hand
_AHEAD: Final = 4  # results a thread that may wait for a slow one before them
# Of all problems together; a report is to be readable, and to fit into memory, however much is lost.
_LISTED_IN_ALL: Final = 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was checked and what was found; `bytes` are stored bytes read. believed: shards that `state` had as intact."""

    manifest: str
    shards: int
    documents: int
    tokens: int
    bytes: int
    believed: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """How far a verification is: shards looked at or believed, and stored bytes, of them read in this run, and in all."""

    shards: int
    num_shards: int
    read_bytes: int
    left_bytes: int
    problems: int


def verify(
    uri: str,
    *,
    threads: int | None = None,
    state: str | None = None,
    name_documents: bool = True,
    on_look: Callable[[Looked], None] | None = None,
    on_problem: Callable[[Problem], None] | None = None,
) -> Report:
    """Reads everything, in the order of the shards.

    threads: shards read at a time; by default one a core, on an object store 16, if 1 GB holds them. state: a local file in
    which intact shards are noted; another call with it goes on from there. It is removed once all is intact. name_documents: look into damaged
    shards for the documents that are; it takes time. on_look is told
    how far it is after each shard, on_problem each problem at once.

    Raises:
        InputError: there is no dataset; or `state` is another file.
        MismatchError: `state` is of another dataset or version.
        DamageError: the manifest and the shard table do not belong together, so nothing else can be checked.
    """
    dataset = Dataset.open(uri)
    problems: list[Problem] = []
    listed = 0

    def found(problem: Problem) -> None:
        nonlocal listed
        if listed > _LISTED_IN_ALL:
            problem = replace(problem, documents=[])
        listed += len(problem.documents)
        problems.append(problem)
        if on_problem is not None:
            on_problem(problem)

    for problem in _file_problems(dataset):
        found(problem)
    counts, stored = dataset.manifest.counts, dataset.shards.column("stored_bytes")
    read_bytes = sum(entry.bytes for entry in dataset.manifest.files.values())
    checker = ShardChecker(dataset, name_documents=name_documents)
    count = threads if threads is not None else _default_threads(dataset)
    with VerifyState(state, dataset.manifest.hash, counts.shards) if state else nullcontext() as kept:
        left = [i for i in range(counts.shards) if kept is None or not kept.intact[i]]
        left_bytes = int(stored[left].sum())
        results = map_ahead(checker.check, left, threads=count, ahead=count * _AHEAD, name="verify")
        for done, (index, ours) in enumerate(zip(left, results, strict=True), start=1):
            for problem in ours:
                found(problem)
            if kept is not None and not ours:
                kept.note(index)
            read_bytes += int(stored[index])
            left_bytes -= int(stored[index])
            if on_look is not None:
                on_look(
                    Looked(
                        shards=counts.shards - len(left) + done,
                        num_shards=counts.shards,
                        read_bytes=read_bytes,
                        left_bytes=left_bytes,
                        problems=len(problems),
                    )
                )
        if kept is not None and not problems:
            kept.remove()
    return Report(
        manifest=dataset.manifest.hash,
        shards=counts.shards,
        documents=counts.documents,
        tokens=counts.tokens,
        bytes=read_bytes,
        believed=counts.shards - len(left),
        problems=problems,
    )


def _default_threads(dataset: Dataset) -> int:
    wanted = os.cpu_count() or 1 if dataset.store.is_local else _REMOTE_THREADS
    largest = int((dataset.shards.column("stored_bytes") + dataset.shards.column("raw_bytes")).max())
    return max(1, min(wanted, _REMOTE_THREADS, _BUFFER_BYTES // max(1, largest)))


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
        if problem := differs(data, entry.bytes, entry.sha256):
            yield Problem(file=name, problem=problem)
        else:
            contents[plain_name(name)] = data
    counts, table = manifest.counts, dataset.shards
    if int(table.tokens.sum()) != counts.tokens or int(table.documents.sum()) != counts.documents:
        yield Problem(file="manifest.json", problem="its counts are not the sums over the shard table")
    if table.digest != manifest.shards_digest:
        yield Problem(file="manifest.json", problem="its shards_digest does not follow from the shard table")
    if sum(manifest.rejects.values()) != counts.rejected:
        yield Problem(file="manifest.json", problem="its rejects by reason do not add up")
    if dataset.is_newest:  # it lists the newest version, and no other has one
        yield from _index_problems(dataset)
    yield from _history_problems(dataset)
    yield from _table_problems(dataset, contents)


def _history_problems(dataset: Dataset) -> Iterator[Problem]:
    """The manifests of the versions before: what else they have is for their own verification."""
    version = dataset.manifest
    while (parent := version.parent) is not None:
        try:
            version = archived(dataset.store, parent)
        except (DamageError, InputError) as error:
            yield Problem(file=archived_manifest(parent), problem=str(error))
            return


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
            rejects = read_table(contents[REJECTS], ["reason", "rows"])
            by_reason = rejects.group_by("reason").aggregate([("rows", "sum")]).to_pylist()
            found = {entry["reason"]: entry["rows_sum"] for entry in by_reason}
            if found != dataset.manifest.rejects:
                yield Problem(file=REJECTS, problem="its rows by reason are not the manifest's")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        yield Problem(file=REJECTS, problem=f"not a table of rejects ({type(error).__name__})")
