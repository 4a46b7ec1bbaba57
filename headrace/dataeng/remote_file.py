"""An object of a store as a file to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from headrace.dataeng.remote import Remote
from headrace.dataeng.uris import redact
from headrace.errors import InputError


class RemoteFile:
    """Reads in windows that grow while it is read on, each of them as `Remote.read` gives it."""

    FIRST_BYTES: Final = 1 << 18
    LARGEST_BYTES: Final = 8 << 20

    def __init__(self, remote: Remote, path: str, name: str) -> None:
        """Raises FileNotFoundError, InputError."""
        self._remote, self._path, self._name = remote, path, name
        self._size = remote.size(path, name)
        self._position = self._begin = 0
        self._window = b""
        self._step = self.FIRST_BYTES
        self.mode = "rb"
        self.closed = False

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        count = left if size is None or size < 0 else min(size, left)
        parts = list(self._parts(count))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _parts(self, count: int) -> Iterator[bytes]:
        while count:
            within = self._position - self._begin
            if not 0 <= within < len(self._window):
                self._fetch(count)
                within = 0
            part = self._window[within : within + count]
            self._position += len(part)
            count -= len(part)
            yield part

    def _fetch(self, count: int) -> None:
        goes_on = self._window and self._position == self._begin + len(self._window)
        self._step = min(2 * self._step, self.LARGEST_BYTES) if goes_on else self.FIRST_BYTES
        length = min(max(count, self._step), self.LARGEST_BYTES, self._size - self._position)
        try:
            self._window = self._remote.read(self._path, self._name, self._position, self._position + length)
        except FileNotFoundError:
            raise InputError(f"{self._name}: it was removed while it was read") from None
        except InputError as error:
            raise InputError(f"{error} (the store failed while it was read)") from None
        self._begin = self._position

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = max(0, offset + (0, self._position, self._size)[whence])
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self.closed, self._window = True, b""

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


def opened(uri: str) -> BinaryIO:
    """The object at `uri` as a file."""
    remote, path = Remote.at(uri)
    return cast(BinaryIO, RemoteFile(remote, path, redact(uri)))
