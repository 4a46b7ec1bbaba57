"""An object store through its fsspec client: every request ends in bounded time, every answer is as long as it must be.

Clients retry much, but each of them something else: a body cut short behind a plain 200, an answer that comes one byte
a second, an upload that was stored while its answer was lost. So here every operation is tried anew, whatever it met
that may pass, for a minute; then it is an InputError that names the place and repeats nothing of the request.

Where answers do not come over TLS nothing in between checks them but a sum of 16 bits, and formats without checksums
would take a changed letter for the text. There every range and every listing is read until two readings agree.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Final, TypeVar, cast

from headrace.dataeng.uris import missing_client, redact
from headrace.errors import HeadraceError, InputError

# No operation is begun anew after this. A job on spot machines may want to wait longer for its store.
PATIENCE_S: Final = float(os.environ.get("HEADRACE_STORE_PATIENCE_S", "60"))
_REQUEST_S: Final = 60.0  # and none may take longer; more for what is large
_LISTING_S: Final = 600.0
_SLOWEST: Final = 1 << 20  # bytes a second, of an upload
_PAUSES_S: Final = (0.1, 0.3, 1.0, 2.0)  # between attempts; the last one again and again
PROBE: Final = ".tmp-probe"  # whoever creates it removes it
_PROBINGS: Final = 4  # the first that is not spoilt decides
_PIECE_BYTES: Final = 8 << 20  # of one request
_READINGS: Final = 10
_UNUSABLE: Final = (TypeError, ValueError, AttributeError, ImportError, NotImplementedError)
_LASTING: Final = (*_UNUSABLE, PermissionError, IsADirectoryError, NotADirectoryError)
_NO_CREDENTIALS: Final = ("NoCredentialsError", "PartialCredentialsError")

_T = TypeVar("_T")


class Remote:
    """A client. Paths are as it spells them; `name` is what a message calls them, without credentials."""

    def __init__(self, filesystem: Any) -> None:
        self.filesystem = filesystem
        if getattr(filesystem, "async_impl", False):
            # Of a request that was given up asyncio would tell stderr, with whatever is in it.
            filesystem.loop.set_exception_handler(_say_nothing)

    @classmethod
    def at(cls, uri: str, *, own: bool = False) -> tuple[Remote, str]:
        """The client for `uri`, and the path there. `own`: not one that is shared in this process.

        Raises InputError or UsageError; neither repeats credentials in `uri`.
        """
        import fsspec

        schemes = [part.partition("://")[0] for part in uri.split("::")]
        options: dict[str, Any] = {scheme: _options(scheme) for scheme in schemes if _options(scheme)}
        if own:
            options["skip_instance_cache"] = True
        try:
            # Listings must show what another process just wrote.
            filesystem, path = fsspec.core.url_to_fs(uri, use_listings_cache=False, **options)
        except ImportError:
            raise missing_client(schemes[0]) from None
        except ValueError:
            raise InputError(f"{redact(uri)}: no file system is known for {schemes[0]}://") from None
        return cls(filesystem), path

    @cached_property
    def is_guarded(self) -> bool:
        """Whether answers cannot change on their way unnoticed: TLS authenticates each record."""
        schemes = self.filesystem.protocol
        if "s3" in schemes:
            client = self._do("set_session")
            return not str(getattr(getattr(client, "meta", None), "endpoint_url", "")).startswith("http://")
        return "http" not in schemes

    def size(self, path: str, name: str) -> int:
        """Bytes of an object. Raises FileNotFoundError."""
        found = self.attempt(name, partial(self._do, "info", path))
        if found.get("type") == "directory":
            raise FileNotFoundError(name)
        if found.get("size") is None:
            raise InputError(
                f"{name}: the server does not say how long it is, so that a cut answer could not be told; "
                "download it, and name the file"
            )
        return int(found["size"])

    def read(self, path: str, name: str, begin: int, end: int) -> bytes:
        """Exactly the bytes from `begin` to `end`, which must be there. Raises FileNotFoundError, InputError."""
        if end - begin <= _PIECE_BYTES:
            return self._agreed(name, partial(self._piece, path, name, begin, end))
        whole = bytearray()
        for at in range(begin, end, _PIECE_BYTES):
            whole += self._agreed(name, partial(self._piece, path, name, at, min(at + _PIECE_BYTES, end)))
        return bytes(whole)

    def write(self, path: str, name: str, data: bytes) -> None:
        """Stores `data`, whatever was there: whole or not at all."""
        put = partial(self._do, "pipe_file", path, data, seconds=_REQUEST_S + len(data) / _SLOWEST)
        try:
            self.attempt(name, put)
        except FileNotFoundError:
            # An upload in parts whose end was answered, but not heard, is no longer known; else the bucket is missing.
            try:
                self.attempt(name, put)
            except FileNotFoundError as error:
                raise failure(name, error) from None

    def create(self, path: str, name: str, data: bytes) -> bool:
        """Stores `data` unless something is there; whether `data` is there now. Once, `require_conditions` first.

        A write whose answer was lost is met again as something that is there: so it is read, and compared.
        """
        seconds = _REQUEST_S + len(data) / _SLOWEST

        def put() -> bool:
            try:
                self._do("pipe_file", path, data, mode="create", seconds=seconds)
            except Exception as error:
                # Clients say "it exists" in many ways, and a race of several writers in yet others.
                lasting = isinstance(error, (PermissionError, *_UNUSABLE))
                if lasting or not self._do("exists", path):
                    raise
                return False
            return True

        if self.attempt(name, put):
            return True
        try:
            return self.size(path, name) == len(data) and self.read(path, name, 0, len(data)) == data
        except FileNotFoundError:  # another's, who has removed it in this moment
            return False

    def replace(self, path: str, name: str, data: bytes, expected: bytes) -> bool:
        """Stores `data` if `expected` is there; whether `data` is there now. Raises FileNotFoundError."""
        seconds = _REQUEST_S + len(data) / _SLOWEST

        def put() -> bool:
            tag = self._do("info", path).get(
                "ETag"
            )  # before the bytes: one that is older than they only refuses
            if self.read(path, name, 0, self.size(path, name)) != expected:
                return False
            condition = {} if tag is None else {"IfMatch": tag}
            try:
                self._do("pipe_file", path, data, seconds=seconds, **condition)
            except Exception:
                found = self.read(path, name, 0, self.size(path, name))
                if found == expected:
                    raise
                return found == data
            return True

        return self.attempt(name, put)

    def require_conditions(self, root: str, name: str) -> None:
        """Raises InputError if of two creations of one object the second does not fail, or a replacement of what is not
        there: a store without conditional writes, or a client that only looks before it writes.
        """
        from fsspec.spec import AbstractFileSystem

        client, path = type(self.filesystem), f"{root}/{PROBE}"
        emulated = not client.async_impl and client.pipe_file is AbstractFileSystem.pipe_file
        for _ in range(0 if emulated else _PROBINGS):  # again: another run may have cleaned up in between
            # Where the first fails, a killed run has left it, or another is at it in this moment.
            mine = self.create(path, name, uuid.uuid4().bytes)
            try:
                kept = not mine or not self.create(path, name, uuid.uuid4().bytes)
                if kept and self._refuses_another_tag(path, name):
                    return
            finally:
                if mine:
                    self.remove(path, name)
        raise InputError(
            f"{name}: the store does not keep to the conditions of a write (If-None-Match: * and If-Match on PUT), so two runs "
            "that begin at the same moment would overwrite each other unnoticed. Nothing was written. Use a store that knows "
            "conditional writes, or write to a local directory and copy the finished dataset"
        )

    def _refuses_another_tag(self, path: str, name: str) -> bool:
        if "s3" not in self.filesystem.protocol:
            return True  # `replace` has no tags there

        def put() -> bool:
            try:
                self._do("pipe_file", path, b"", IfMatch='"00000000000000000000000000000000"')
            except OSError as error:
                if isinstance(error, FileNotFoundError | FileExistsError) or error.errno == errno.EINVAL:
                    return True
                raise
            return False

        return self.attempt(name, put)

    def find(self, path: str, name: str) -> dict[str, int]:
        """Size by path of everything below `path`."""

        def listing() -> dict[str, int]:
            found = self._do("find", path, detail=True, seconds=_LISTING_S)
            return {str(key): int(entry["size"] or 0) for key, entry in found.items()}

        return dict(self._agreed_listing(name, lambda: list(listing().items())))

    def glob(self, pattern: str, name: str) -> list[str]:
        """The paths that match, sorted."""
        return sorted(
            self._agreed_listing(
                name, lambda: [str(key) for key in self._do("glob", pattern, seconds=_LISTING_S)]
            )
        )

    def is_file(self, path: str, name: str) -> bool:
        """Of clients their own `isfile` takes a store that fails for one without the file."""
        try:
            found = self.attempt(name, partial(self._do, "info", path))
        except FileNotFoundError:
            return False
        return bool(found.get("type") != "directory")

    def is_directory(self, path: str, name: str) -> bool:
        if "http" in self.filesystem.protocol and not path.endswith("/"):
            return False  # its client would fetch all of the file to look for links in it
        return bool(self.attempt(name, partial(self._do, "isdir", path)))

    def remove(self, path: str, name: str) -> None:
        """Absent is fine."""
        try:
            self.attempt(name, partial(self._do, "rm_file", path))
        except FileNotFoundError:
            pass

    def download(self, path: str, name: str, local: str) -> None:
        """Copies an object to a local file; its bytes are not checked, its length is."""
        size = self.size(path, name)

        def get() -> None:
            self._do("get_file", path, local, seconds=_REQUEST_S + size / _SLOWEST)
            if (found := os.path.getsize(local)) != size:  # noqa: PTH202
                raise OSError(f"{found} bytes of {size}")

        self.attempt(name, get)

    def attempt(self, name: str, action: Callable[[], _T]) -> _T:
        """The result of `action`, which is done again while what it raises may pass.

        Raises FileNotFoundError, and anything else as an InputError.
        """
        begun = time.monotonic()
        number = 0
        while True:
            try:
                return action()
            except (FileNotFoundError, HeadraceError):
                raise
            except Exception as error:  # noqa: BLE001 every client raises types of its own, which may carry requests
                lasting = isinstance(error, _LASTING) or type(error).__name__ in _NO_CREDENTIALS
                pause = _PAUSES_S[min(number, len(_PAUSES_S) - 1)]
                if lasting or time.monotonic() - begun + pause > PATIENCE_S:
                    raise failure(name, error, time.monotonic() - begun) from None
            time.sleep(pause)
            number += 1

    def _piece(self, path: str, name: str, begin: int, end: int) -> bytes:
        def get() -> bytes:
            data = cast(bytes, self._do("cat_file", path, start=begin, end=end)) if end > begin else b""
            if len(data) != end - begin:
                raise OSError(f"{len(data)} bytes in place of {end - begin}")
            return data

        return self.attempt(name, get)

    def _agreed(self, name: str, reading: Callable[[], bytes]) -> bytes:
        if self.is_guarded:
            return reading()
        seen: set[bytes] = set()
        for _ in range(_READINGS):
            data = reading()
            digest = hashlib.sha256(data).digest()
            if digest in seen:
                return data
            seen.add(digest)
        raise InputError(
            f"{name}: {_READINGS} readings of the same bytes gave something else each time; the way to the store changes "
            "them. Use https, or look for the fault"
        )

    def _agreed_listing(self, name: str, listing: Callable[[], list[Any]]) -> list[Any]:
        first = self.attempt(name, listing)
        if self.is_guarded or self.attempt(name, listing) == first:
            return first
        # Others may be writing there, so that no two listings need be equal; what was changed on the way is in one only.
        seen = Counter[Any]()
        for _ in range(3):
            seen.update(self.attempt(name, listing))
        return [entry for entry, times in seen.items() if times > 1]

    def _do(self, method: str, *args: Any, seconds: float = _REQUEST_S, **options: Any) -> Any:
        """One call of the client; a coroutine of it ends after `seconds`."""
        asynchronous = getattr(self.filesystem, "async_impl", False)
        coroutine = getattr(self.filesystem, f"_{method}", None) if asynchronous else None
        if method == "set_session" and asynchronous:
            coroutine = self.filesystem.set_session
        if coroutine is None:
            return getattr(self.filesystem, method)(*args, **options)
        from fsspec.asyn import sync

        return sync(self.filesystem.loop, coroutine, *args, timeout=seconds, **options)


def failure(name: str, error: Exception, seconds: float = 0.0) -> InputError:
    """What a client raised, in words that repeat nothing of the request: URLs and headers may carry secrets."""
    kind = type(error).__name__
    if kind in _NO_CREDENTIALS:
        return InputError(
            f"{name}: no credentials were found; give them as for every S3 client, for instance "
            "with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile"
        )
    detail = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else kind
    tried = f", tried for {seconds:.0f} seconds" if seconds >= 1 else ""
    return InputError(
        f"{name}: the store answered with an error ({detail}{tried}). What is finished is kept: run the same command again "
        "to continue"
    )


def _say_nothing(_loop: Any, _context: dict[str, Any]) -> None:
    """What a call raises is raised by it; this is about tasks that nobody waits for any more."""


def _options(scheme: str) -> dict[str, Any]:
    """Of clients whose own limits are too wide."""
    if scheme not in ("s3", "s3a"):
        return {}
    config: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 20}
    if "AWS_MAX_ATTEMPTS" not in os.environ:
        config["retries"] = {"max_attempts": 2}  # besides the first; s3fs and `attempt` go on behind it
    return {"config_kwargs": config}
