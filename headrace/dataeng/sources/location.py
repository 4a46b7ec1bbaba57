"""Open and list input files: local paths and any fsspec URI."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.dataeng.storage import RemoteFile, is_remote, missing_client, redact
from headrace.errors import InputError


def open_input(uri: str) -> BinaryIO:
    """A seekable binary file. Raises InputError (which never repeats credentials in `uri`)."""
    with _translated(uri):
        if not is_remote(uri):
            return open(_local(uri), "rb")
        filesystem, path = _filesystem(uri)
        return cast(BinaryIO, RemoteFile(filesystem.open(path, "rb"), redact(uri)))


def open_arrow(uri: str, *, mapped: bool = False) -> Any:
    """The same as a file of Arrow's own, which reads a local one without a copy in Python, or maps it."""
    import pyarrow as pa

    if is_remote(uri):
        return pa.PythonFile(open_input(uri), mode="r")
    with _translated(uri):
        return pa.memory_map(str(_local(uri))) if mapped else pa.OSFile(str(_local(uri)))


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


def is_below(uri: str, directory: str) -> bool:
    """Whether `uri` is the directory (or prefix) or lies in it; neither need exist."""
    inner, outer = same_file(uri).rstrip("/"), same_file(directory).rstrip("/")
    return is_remote(uri) == is_remote(directory) and f"{inner}/".startswith(f"{outer}/")


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
        raise missing_client(uri.partition("://")[0]) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: cannot be opened ({type(error).__name__})") from None
