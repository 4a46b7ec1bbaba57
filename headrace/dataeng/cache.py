"""The node cache: every shard as one verified raw file on this machine, shared by all processes through files only.

A local uncompressed dataset is read where it lies. Anything else is fetched once a node: the file system is the
lock (`flock`, which the kernel drops when a process dies), the final name appears by rename, and a file that a
killed process left half-written is never under that name. There is no daemon and nothing to clean by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, InputError
from headrace.manifests.shard_table import ShardRow

CACHE_VARIABLE = "HEADRACE_CACHE_DIR"
_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.25
_CHUNK = 4 << 20


def default_cache_dir() -> Path:
    """`$HEADRACE_CACHE_DIR`, or `headrace` in the user's cache directory."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


class NodeCache:
    """Verified raw shard files of one dataset. Thread-safe and process-safe.

    bytes_fetched counts what this process moved from the store.
    """

    def __init__(self, dataset: Dataset, cache_dir: Path | None = None) -> None:
        self._dataset = dataset
        self._in_place = dataset.store.is_local and dataset.manifest.compression == "none"
        self._root = (cache_dir or default_cache_dir()) / "shards"
        self.bytes_fetched = 0
        self._count = threading.Lock()
        self._verified: dict[str, tuple[int, int, int]] = {}

    def path(self, row: ShardRow) -> Path:
        """The local raw file of a shard, its SHA-256 checked once by this process; fetches it if need be.

        Raises:
            DamageError: the bytes differ from the manifest's hash, and still do after one more fetch.
            InputError: the store cannot be read.
        """
        if self._in_place:
            path = self._dataset.store.local_path(row.name)
            if (problem := self._problem(row, path)) is not None:
                raise self._damage(row, problem)
            return path
        # Named by content: a dataset that was moved or published twice is fetched once, and of a new version what is new.
        path = self._root / row.raw_sha256[:2] / f"{row.raw_sha256}.mds"
        for _ in range(_ATTEMPTS):
            try:
                self._ensure(row, path)
                return path
            except FileNotFoundError:  # a cache may be emptied at any time, also now
                continue
        raise InputError(
            f"{self._root}: the cache is removed again and again while shards are fetched into it"
        )

    def _ensure(self, row: ShardRow, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent / f"{path.name}.lock"):
            if self._problem(row, path) is not None:
                self._fetch_with_retries(row, path)
                self._verified[row.name] = _stamp(path)

    def _problem(self, row: ShardRow, path: Path) -> str | None:
        """How a local raw file differs from its record, or None.

        A file that was hashed and not touched since is not hashed again: a shard that was closed to stay within
        `OpenShards`' limits may be opened very often.
        """
        try:
            stamp = _stamp(path)
        except FileNotFoundError:
            return "it is missing"
        if self._verified.get(row.name) == stamp:
            return None
        if (problem := _difference(path, row.raw_bytes, row.raw_sha256)) is None:
            self._verified[row.name] = stamp
        return problem

    def _fetch_with_retries(self, row: ShardRow, path: Path) -> None:
        damaged = False
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._fetch(row, path)
                return
            except DamageError:
                if damaged or attempt == _ATTEMPTS:
                    raise
                damaged = True  # a bad transfer is fetched again once; bytes damaged at rest stay so
            except InputError:
                if attempt == _ATTEMPTS:
                    raise
                pause = _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
                time.sleep(pause * random.uniform(0.5, 1.5))  # many nodes meet the same outage

    def _fetch(self, row: ShardRow, path: Path) -> None:
        # Only the lock's holder writes these names, so what a killed one left is written over.
        stored, raw = (path.parent / f".tmp-{path.name}.{kind}" for kind in ("stored", "raw"))
        try:
            try:
                self._dataset.store.download(row.name, stored)
            except FileNotFoundError:
                if self._dataset.store.exists(row.name):
                    raise  # it is the cache that went away
                raise self._damage(row, "it is missing") from None
            with self._count:
                self.bytes_fetched += stored.stat().st_size
            if (problem := _difference(stored, row.stored_bytes, row.stored_sha256)) is not None:
                raise self._damage(row, problem)
            if row.name.endswith(".zstd"):
                self._decompress(row, stored, raw)
                if (problem := _difference(raw, row.raw_bytes, row.raw_sha256)) is not None:
                    raise self._damage(row, f"after decompression, {problem}")
                os.replace(raw, path)
            else:
                os.replace(stored, path)
        finally:
            stored.unlink(missing_ok=True)
            raw.unlink(missing_ok=True)

    def _decompress(self, row: ShardRow, stored: Path, raw: Path) -> None:
        import zstandard

        written = 0
        try:
            with open(stored, "rb") as source, open(raw, "wb") as target:
                for chunk in zstandard.ZstdDecompressor().read_to_iter(source, write_size=_CHUNK):
                    written += len(chunk)
                    if written > row.raw_bytes:  # bounded, whatever the frame claims
                        raise self._damage(row, f"it unpacks to more than {row.raw_bytes:,} bytes")
                    target.write(chunk)
        except zstandard.ZstdError as error:
            raise self._damage(row, f"it does not unpack ({error})") from None

    def _damage(self, row: ShardRow, problem: str) -> DamageError:
        store = self._dataset.store
        return DamageError(
            f"{store.describe(row.name)}: {problem}. The shard's {row.tokens:,} tokens ({row.documents:,} documents, "
            f"listed in {row.lineage}) cannot be used; restore it from a copy, or rebuild it with `headrace tokenize`"
        )


def _difference(path: Path, expected_bytes: int, expected_sha256: str) -> str | None:
    """How a local file differs from its record, in words; None if it does not."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "it is missing"
    if size != expected_bytes:
        return f"{size:,} bytes, the manifest says {expected_bytes:,}"
    if (found := file_sha256(path)) != expected_sha256:
        return f"SHA-256 {found[:16]}…, the manifest says {expected_sha256[:16]}…"
    return None


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a local file, in bounded memory and without the GIL."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def map_file(path: Path) -> Any:
    """The file's bytes, mapped read-only, as an object with the buffer protocol.

    By Arrow, because Python's own `mmap` keeps a file descriptor as long as the map lives, and a process may well read
    more shards at a time than it may have descriptors.
    """
    import pyarrow as pa

    with pa.memory_map(os.fspath(path)) as file:
        return file.read_buffer()


def _stamp(path: Path) -> tuple[int, int, int]:
    """What changes when the file does, short of somebody's intent."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `path` among all processes and threads of this machine."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
