"""The only way bytes enter or leave: one root, local or any fsspec URI, whole or absent.

A local write goes to a temporary name, is synced, renamed, and its directory synced. On an object store one
put of the whole object gives the same promise. Names are relative to the root and cannot leave it.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.errors import HeadraceError, InputError, MissingExtra, UsageError
from headrace.manifests.names import checked_name

_TEMPORARY = ".tmp-"
_EXTRAS = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}


def redact(uri: str) -> str:
    """`uri` without user, password, query or fragment: safe to print, log and store. Chained URIs (`a::b`) too."""
    if "::" in uri and "://" in uri:
        parts = uri.split("::")
        shown = [_redact(part) for part in parts]
        # Behind a query, a `::` may as well be part of a signature.
        first = next((i for i, part in enumerate(parts) if re.search(r"[?#]", part)), len(parts))
        return "::".join(shown[: first + 1])
    return _redact(uri)


def _redact(uri: str) -> str:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)\Z", uri, re.DOTALL)
    if not match:
        return uri
    scheme, rest = match.groups()
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def is_remote(uri: str) -> bool:
    """Whether `uri` names an fsspec location rather than a local path (`file://` is local)."""
    scheme, separator, _ = uri.partition("://")
    return bool(separator) and scheme not in ("file", "local")


def missing_client(scheme: str) -> UsageError:
    """What to say when the client for `scheme` is not installed: our extra, or what fsspec advises."""
    purpose = f"reading {scheme}:// URIs"
    if scheme in _EXTRAS:
        return MissingExtra(*_EXTRAS[scheme], purpose)
    from fsspec.registry import known_implementations

    advice = known_implementations.get(scheme, {}).get("err") or "install the fsspec client for it"
    return UsageError(f"{purpose} needs a package that is not installed: {advice}")


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


def _create_whole(path: Path, data: bytes) -> None:
    """`write_whole`, unless `path` exists."""
    temporary = path.parent / f"{_TEMPORARY}{uuid.uuid4().hex}-{path.name}"
    write_whole(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


class RemoteFile:
    """A file whose failures to read are failures of the store: never to be taken for damage of what was read."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self.mode = "rb"

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except Exception as error:  # noqa: BLE001 clients have errors of their own, which may carry requests
            raise InputError(
                f"{self._name}: the store failed while it was read ({type(error).__name__}); "
                "run the same command again to continue"
            ) from None

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        self._filesystem: Any = None

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
        with self._translated(name):
            return bool(self._fs().isfile(self._key(name)))

    def read(self, name: str) -> bytes:
        if self.is_local:
            return self.local_path(name).read_bytes()
        with self._translated(name):
            return cast(bytes, self._fs().cat_file(self._key(name)))

    def open(self, name: str) -> BinaryIO:
        """A seekable file for reading."""
        if self.is_local:
            return open(self.local_path(name), "rb")
        with self._translated(name):
            return cast(BinaryIO, RemoteFile(self._fs().open(self._key(name), "rb"), self.describe(name)))

    def download(self, name: str, path: Path) -> None:
        """Copies `name` to the local file `path` in bounded memory; the caller checks what arrived."""
        if self.is_local:
            shutil.copyfile(self.local_path(name), path)
            return
        with self._translated(name):
            self._fs().get_file(self._key(name), str(path))

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Stores `data` under `name`, replacing what was there: whole or absent, durable on return."""
        if self.is_local:
            write_whole(self.local_path(name), data)
            return
        with self._translated(name):
            self._fs().pipe_file(self._key(name), bytes(data))  # no copy of what is bytes already

    def create(self, name: str, data: bytes) -> None:
        """`write`, but what is there already stays: of several writers at once, the first one's data. Read it to see.

        Object stores that know no conditional write keep the last one's.
        """
        if self.is_local:
            _create_whole(self.local_path(name), data)
            return
        key = self._key(name)
        with self._translated(name):
            try:
                self._fs().pipe_file(key, data, mode="create")
            except Exception:  # noqa: BLE001 clients say "it exists" and "I know no such mode" in many ways
                if not self._fs().exists(key):
                    self._fs().pipe_file(key, data)

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
        key = self._key(name)
        with self._translated(name):
            tag = (
                self._fs().info(key).get("ETag")
            )  # before the bytes: a tag that is older than they are only refuses
            if self._fs().cat_file(key) != expected:
                return False
            try:
                self._fs().pipe_file(key, data, **({} if tag is None else {"IfMatch": tag}))
            except Exception:
                found = self._fs().cat_file(key)
                if found == expected:
                    raise
                return bool(found == data)
        return True

    def list(self, prefix: str = "") -> list[str]:
        """Every stored name that starts with `prefix` (a directory, or empty for all), sorted; no temporaries."""
        if self.is_local:
            root = self.local_root
            base = self.local_path(prefix) if prefix else root
            found = (p.relative_to(root).as_posix() for p in base.rglob("*") if p.is_file())
        else:
            with self._translated(prefix):
                keys = self._fs().find(self._key(prefix) if prefix else self.uri)
            strip = self._fs()._strip_protocol(self.uri).rstrip("/") + "/"
            found = (key.removeprefix(strip) for key in keys)
        return sorted(name for name in found if _TEMPORARY not in name)

    def remove(self, name: str) -> None:
        """Removes `name`; absent is fine."""
        if self.is_local:
            self.local_path(name).unlink(missing_ok=True)
            return
        with self._translated(name):
            try:
                self._fs().rm_file(self._key(name))
            except FileNotFoundError:
                pass

    def clean_temporaries(self) -> None:
        """Removes what a killed writer left under a temporary name (local stores; call under the job's lock)."""
        if self.is_local and Path(self.uri).is_dir():
            for path in Path(self.uri).rglob(f"{_TEMPORARY}*"):
                path.unlink(missing_ok=True)

    def _key(self, name: str) -> str:
        return f"{self.uri}/{checked_name(name, self.describe())}"

    def _fs(self) -> Any:
        if self._filesystem is None:
            import fsspec

            scheme = self.uri.partition("://")[0]
            try:
                # Listings must show what another process just wrote.
                self._filesystem = fsspec.filesystem(
                    scheme, use_listings_cache=False, skip_instance_cache=True
                )
            except ImportError:
                raise missing_client(scheme) from None
            except ValueError:
                raise InputError(f"{self.describe()}: no file system is known for {scheme}://") from None
        return self._filesystem

    @contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        """Turns a client's failure into an error without its request (URLs and headers may carry secrets)."""
        try:
            yield
        except (FileNotFoundError, HeadraceError):
            raise
        except Exception as error:  # noqa: BLE001 - every client raises types of its own
            kind = type(error).__name__
            if kind in ("NoCredentialsError", "PartialCredentialsError"):
                raise InputError(
                    f"{self.describe(name)}: no credentials were found; give them as for every S3 client, for instance "
                    "with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile"
                ) from None
            detail = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else kind
            raise InputError(f"{self.describe(name)}: the store answered with an error ({detail})") from None
