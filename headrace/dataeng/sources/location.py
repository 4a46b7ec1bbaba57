"""Open and list input files: local paths and any fsspec URI."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.dataeng.remote import Remote
from headrace.dataeng.remote_file import opened
from headrace.dataeng.uris import is_remote, redact
from headrace.errors import InputError

_MAX_LIST_BYTES: Final = 64 << 20


def open_input(uri: str) -> BinaryIO:
    """A seekable binary file. Raises InputError (which never repeats credentials in `uri`)."""
    with _translated(uri):
        if not is_remote(uri):
            return open(_local(uri), "rb")
        return opened(uri)


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
            remote, path = Remote.at(uri)
            if not remote.is_directory(path, redact(uri)):
                return None
            root_key = path.rstrip("/") + "/"
            keys = remote.find(path, redact(uri))
            found = [key.removeprefix(root_key) for key in keys if key.startswith(root_key)]
    data = (name for name in found if not any(part[:1] in "._" for part in name.split("/")))
    return [f"{prefix}/{name}" for name in sorted(data)]


def list_files(uri: str) -> list[tuple[str, int]] | None:
    """(path below `uri`, size) of every regular file of a tree, in no order; None if `uri` is not a directory.

    Passed over are names that begin with `.`, and directories whose names begin with `_`: unlike in `list_directory`, a
    file such as `__init__.py` is a document. Links to directories are not followed, those to files are.
    """
    with _translated(uri):
        if not is_remote(uri):
            root = _local(uri)
            if not root.is_dir():
                return None
            found = []
            for directory, folders, names in os.walk(root, followlinks=False, onerror=_raise):
                folders[:] = [name for name in folders if name[:1] not in "._"]
                for name in names:
                    file = Path(directory, name)
                    if name[:1] != "." and file.is_file():
                        found.append((file.relative_to(root).as_posix(), file.stat().st_size))
            return found
        remote, path = Remote.at(uri)
        if not remote.is_directory(path, redact(uri)):
            return None
        root_key = path.rstrip("/") + "/"
        sizes = remote.find(path, redact(uri))
        within = ((key, size) for key, size in sizes.items() if key.startswith(root_key))
        below = ((key.removeprefix(root_key), size) for key, size in within)
        return [(name, size) for name, size in below if not _is_hidden(name)]


def _is_hidden(path: str) -> bool:
    *folders, name = path.split("/")
    return name[:1] == "." or any(folder[:1] in "._" for folder in folders)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _raise(error: OSError) -> None:
    raise error


def read_list(uri: str) -> list[str]:
    """The lines of a text file that names sources, without blank ones. Raises InputError if it is not such a list."""
    with open_input(uri) as file:
        data = file.read(_MAX_LIST_BYTES + 1)
    name = redact(uri)
    if len(data) > _MAX_LIST_BYTES:
        raise InputError(
            f"{name}: over {_MAX_LIST_BYTES:,} bytes, too long for a list of sources; name a directory or a glob"
        )
    if b"\0" in data or not _is_utf8(data):
        raise InputError(f"{name}: not a list of sources, which is UTF-8 text with one a line")
    # Not `splitlines`: a name may hold what Unicode calls a line separator.
    places = [line.strip(" \t\r") for line in data.decode("utf-8-sig").split("\n")]
    if not any(places):
        raise InputError(f"{name}: a list without a source")
    return [place for place in places if place]


def expand_glob(uri: str) -> list[str]:
    """The files that match a pattern with `*`, `?`, `[...]` or `**`, sorted."""
    with _translated(uri):
        if not is_remote(uri):
            # Path.glob would forget how the pattern was spelt, and names are recorded as they were given.
            matches = glob.glob(str(_local(uri)), recursive=True)  # noqa: PTH207
            return sorted(path for path in matches if Path(path).is_file())
        remote, path = Remote.at(uri)
        scheme = uri.partition("://")[0]
        return [f"{scheme}://{key}" for key in remote.glob(path, redact(uri))]


def is_file(uri: str) -> bool:
    with _translated(uri):
        if not is_remote(uri):
            return _local(uri).is_file()
        remote, path = Remote.at(uri)
        return remote.is_file(path, redact(uri))


def same_file(uri: str) -> str:
    """Equal for two spellings of one file: `a`, `./a`, its absolute path, a link to it."""
    return uri if is_remote(uri) else os.path.realpath(_local(uri))


def is_below(uri: str, directory: str) -> bool:
    """Whether `uri` is the directory (or prefix) or lies in it; neither need exist."""
    inner, outer = same_file(uri).rstrip("/"), same_file(directory).rstrip("/")
    return is_remote(uri) == is_remote(directory) and f"{inner}/".startswith(f"{outer}/")


def file_size(uri: str) -> int:
    """Bytes of a file."""
    with _translated(uri):
        if not is_remote(uri):
            return _local(uri).stat().st_size
        remote, path = Remote.at(uri)
        return remote.size(path, redact(uri))


def _local(uri: str) -> Path:
    return Path(uri.removeprefix("file://").removeprefix("local://"))


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
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: cannot be opened ({type(error).__name__})") from None
