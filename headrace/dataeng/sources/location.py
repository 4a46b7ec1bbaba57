"""Open and list input files: local paths and any fsspec URI."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.dataeng.storage import is_remote, redact
from headrace.errors import InputError, MissingExtra


def open_input(uri: str) -> BinaryIO:
    """A seekable binary file. Raises InputError (which never repeats credentials in `uri`)."""
    with _translated(uri):
        if not is_remote(uri):
            return open(_local(uri), "rb")
        filesystem, path = _filesystem(uri)
        return cast(BinaryIO, _RemoteFile(filesystem.open(path, "rb"), redact(uri)))


class _RemoteFile:
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

    def __enter__(self) -> _RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def list_directory(uri: str) -> list[str] | None:
    """Every file below a directory, sorted, as URIs that begin with `uri`; None if `uri` is not a directory.

    Names that begin with `.` or `_` are not data by the convention of every system that writes directories.
    """
    prefix = uri.rstrip("/")
    with _translated(uri):
        if not is_remote(uri):
            root = _local(uri)
            if not root.is_dir():
                return None
            found = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
        else:
            filesystem, path = _filesystem(uri)
            if not filesystem.isdir(path):
                return None
            root_key = path.rstrip("/") + "/"
            found = [key.removeprefix(root_key) for key in filesystem.find(path)]
    data = (name for name in found if not any(part[:1] in "._" for part in name.split("/")))
    return [f"{prefix}/{name}" for name in sorted(data)]


def expand_glob(uri: str) -> list[str]:
    """The files that match a pattern with `*`, `?`, `[...]` or `**`, sorted."""
    with _translated(uri):
        if not is_remote(uri):
            # Path.glob would forget how the pattern was spelt, and names are recorded as they were given.
            matches = glob.glob(str(_local(uri)), recursive=True)  # noqa: PTH207
            return sorted(path for path in matches if Path(path).is_file())
        filesystem, path = _filesystem(uri)
        scheme = uri.partition("://")[0]
        return [f"{scheme}://{key}" for key in sorted(filesystem.glob(path))]


def is_file(uri: str) -> bool:
    with _translated(uri):
        if not is_remote(uri):
            return _local(uri).is_file()
        filesystem, path = _filesystem(uri)
        return bool(filesystem.isfile(path))


def same_file(uri: str) -> str:
    """Equal for two spellings of one file: `a`, `./a`, its absolute path, a link to it."""
    return uri if is_remote(uri) else os.path.realpath(_local(uri))


def _local(uri: str) -> Path:
    return Path(uri.removeprefix("file://").removeprefix("local://"))


def _filesystem(uri: str) -> tuple[Any, str]:
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(uri)
    return filesystem, path


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """Turns a client's failure into an error without its request (URLs and headers may carry secrets)."""
    name = redact(uri)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name}: no such file") from None
    except PermissionError:
        raise InputError(f"{name}: permission denied") from None
    except ImportError:
        scheme = uri.partition("://")[0]
        raise MissingExtra(f"for {scheme}://", scheme, f"reading {scheme}:// URIs") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: cannot be opened ({type(error).__name__})") from None
