"""The only way bytes enter or leave: one root, local or any fsspec URI, whole or absent.

A local write goes to a temporary name, is synced, renamed, and its directory synced. On an object store one
put of the whole object gives the same promise. Names are relative to the root and cannot leave it.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import BinaryIO, cast

from headrace.dataeng.remote import PROBE, Remote
from headrace.dataeng.remote_file import RemoteFile
from headrace.dataeng.uris import is_remote, redact
from headrace.errors import InputError
from headrace.manifests.names import checked_name

__all__ = ["Store", "is_remote", "redact", "sync_directory", "write_whole"]

_TEMPORARY = ".tmp-"


def sync_directory(path: Path) -> None:
    """Makes a rename inside `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes | memoryview) -> None:
    """Writes a local file whole or not at all, durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f"{_TEMPORARY}{uuid.uuid4().hex}-{path.name}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _create_whole(path: Path, data: bytes) -> bool:
    """`write_whole`, unless `path` exists; whether it was written."""
    temporary = path.parent / f"{_TEMPORARY}{uuid.uuid4().hex}-{path.name}"
    write_whole(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


class Store:
    """A dataset's or a job's root. Safe to share between threads and to pickle to a spawned process."""

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        uri = os.fspath(uri)
        if not uri:
            raise InputError("an empty path was given where a directory or a URI was expected")
        self.is_local = not is_remote(uri)
        if not self.is_local and redact(uri) != uri:
            raise InputError(
                f"{redact(uri)}: the URI given has a user, password, query or fragment, which plans and logs would "
                "repeat. Give scheme://bucket/path, and the credentials in the environment, as the store's client reads them"
            )
        if self.is_local:
            uri = re.sub(r"^(file|local)://", "", uri)
        self.uri = uri.rstrip("/") or "/"
        self._client: Remote | None = None
        self._keeps_conditions = False  # it was seen to

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return (Store, (self.uri,))

    def __repr__(self) -> str:
        return f"Store({redact(self.uri)!r})"

    def describe(self, name: str = "") -> str:
        """The place in words for a message: no credentials."""
        return redact(f"{self.uri}/{name}" if name else self.uri)

    @property
    def local_root(self) -> Path:
        """The root as a local path."""
        if not self.is_local:
            raise InputError(f"{self.describe()} is not on this machine's file system")
        return Path(self.uri)

    def local_path(self, name: str) -> Path:
        """The local path of `name`."""
        return self.local_root / checked_name(name, self.describe())

    def exists(self, name: str) -> bool:
        if self.is_local:
            return self.local_path(name).is_file()
        return self._remote.is_file(self._key(name), self.describe(name))

    def read(self, name: str) -> bytes:
        if self.is_local:
            return self.local_path(name).read_bytes()
        remote, key, shown = self._remote, self._key(name), self.describe(name)
        return remote.read(key, shown, 0, remote.size(key, shown))

    def open(self, name: str) -> BinaryIO:
        """A seekable file for reading."""
        if self.is_local:
            return open(self.local_path(name), "rb")
        return cast(BinaryIO, RemoteFile(self._remote, self._key(name), self.describe(name)))

    def download(self, name: str, path: Path) -> None:
        """Copies `name` to the local file `path` in bounded memory; the caller checks what arrived."""
        if self.is_local:
            shutil.copyfile(self.local_path(name), path)
            return
        self._remote.download(self._key(name), self.describe(name), str(path))

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Stores `data` under `name`, replacing what was there: whole or absent, durable on return."""
        if self.is_local:
            write_whole(self.local_path(name), data)
            return
        self._remote.write(
            self._key(name), self.describe(name), bytes(data)
        )  # no copy of what is bytes already

    def create(self, name: str, data: bytes) -> bool:
        """`write`, but what is there already stays: of several writers at once, the first one's data.

        Returns whether `data` is what is there now. Raises InputError for an object store that does not keep to it, which
        is tried out before it is relied on.
        """
        if self.is_local:
            path = self.local_path(name)
            return _create_whole(path, data) or path.read_bytes() == data
        self._require_conditions()
        return self._remote.create(self._key(name), self.describe(name), data)

    def replace(self, name: str, data: bytes, *, expected: bytes) -> bool:
        """`write`, if what is stored under `name` is still `expected`; else False, and nothing is changed.

        On S3 the put itself has the condition. Elsewhere there is a moment between the look and the write: a local caller
        holds the directory's lock.
        """
        if self.is_local:
            if self.local_path(name).read_bytes() != expected:
                return False
            self.write(name, data)
            return True
        self._require_conditions()
        return self._remote.replace(self._key(name), self.describe(name), data, expected)

    def list(self, prefix: str = "") -> list[str]:
        """Every stored name that starts with `prefix` (a directory, or empty for all), sorted; no temporaries."""
        if self.is_local:
            root = self.local_root
            base = self.local_path(prefix) if prefix else root
            found = (p.relative_to(root).as_posix() for p in base.rglob("*") if p.is_file())
        else:
            keys = self._remote.find(self._key(prefix) if prefix else self.uri, self.describe(prefix))
            strip = self._remote.filesystem._strip_protocol(self.uri).rstrip("/") + "/"
            # Some stores list the prefix itself, too.
            found = (key.removeprefix(strip) for key in keys if key.startswith(strip))
        return sorted(name for name in found if _TEMPORARY not in name)

    def sizes(self) -> dict[str, int]:
        """Bytes of everything that is stored, by name, from one listing; no temporaries."""
        if self.is_local:
            root = self.local_root
            paths = (p for p in root.rglob("*") if p.is_file())
            found = ((p.relative_to(root).as_posix(), p.stat().st_size) for p in paths)
        else:
            listed = self._remote.find(self.uri, self.describe())
            strip = self._remote.filesystem._strip_protocol(self.uri).rstrip("/") + "/"
            found = ((key.removeprefix(strip), size) for key, size in listed.items() if key.startswith(strip))
        return {name: size for name, size in found if _TEMPORARY not in name}

    def remove(self, name: str) -> None:
        """Removes `name`; absent is fine."""
        if self.is_local:
            self.local_path(name).unlink(missing_ok=True)
            return
        self._remote.remove(self._key(name), self.describe(name))

    def clean_temporaries(self) -> None:
        """Removes what a killed writer left under a temporary name; of a local store call it under the job's lock."""
        if not self.is_local:
            self._remote.remove(f"{self.uri}/{PROBE}", self.describe())  # all else is one put
        elif Path(self.uri).is_dir():
            for path in Path(self.uri).rglob(f"{_TEMPORARY}*"):
                path.unlink(missing_ok=True)

    def _require_conditions(self) -> None:
        if not self._keeps_conditions:
            self._remote.require_conditions(self.uri, self.describe())
            self._keeps_conditions = True

    def _key(self, name: str) -> str:
        return f"{self.uri}/{checked_name(name, self.describe())}"

    @property
    def _remote(self) -> Remote:
        if self._client is None:
            self._client, _ = Remote.at(self.uri, own=True)
        return self._client
