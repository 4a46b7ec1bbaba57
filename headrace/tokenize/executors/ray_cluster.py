"""Reach a Ray cluster, or begin one here, and leave it as it was: no word of Ray's own on the terminal, signals as before."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

from headrace.dataeng.cores import num_cores
from headrace.dataeng.storage import redact
from headrace.errors import InputError, MismatchError, MissingExtra, UsageError

_LOCAL_OBJECT_STORE_BYTES: Final = 80 << 20  # about the least that Ray takes: only tasks and counts travel
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a warning about GPUs
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # what raylets say of their end would be printed on stdout
}


class Cluster:
    """A connection to one; `close` ends it, and the cluster if it was begun here."""

    def __init__(self) -> None:
        self._ray: Any = None  # if the connection is ours
        self._scratch: Path | None = None  # of a cluster that is ours

    def connect(self, address: str | None, workers: int | None) -> Any:
        """The module `ray`, connected: to `address`, to RAY_ADDRESS, or to a cluster of `workers` CPUs that begins here. A
        program that is connected already stays where it is.

        Raises:
            MissingExtra: Ray is not installed.
            InputError, MismatchError, UsageError: the cluster does not answer, or cannot be used from here.
        """
        ray = _import_ray()
        if ray.is_initialized():
            return ray
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        if "://" in address:
            raise UsageError(
                f"--address {redact(address)}: expected HOST:PORT, auto or local. Run the command on a node of the cluster, "
                "or as a Ray job: the driver, too, must see --out and the sources"
            )
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        self._ray = ray
        try:
            if address == "local":
                # A directory of its own: in the usual one `auto` would find this cluster. In /tmp, for sockets have short names.
                self._scratch = Path(mkdtemp(prefix="headrace-ray-", dir="/tmp"))
                options |= {
                    "num_cpus": workers or num_cores(),
                    "include_dashboard": False,
                    "object_store_memory": _LOCAL_OBJECT_STORE_BYTES,
                    "_temp_dir": str(self._scratch),
                }
            else:
                _require_listener(address)
            with _signal_handlers_kept():
                ray.init(address=address, **options)
        except (OSError, ValueError) as error:
            raise InputError(
                f"--address {address}: no Ray cluster answers there ({last_line(error)}); `ray start --head` begins one"
            ) from None
        except RuntimeError as error:  # it has another version of Ray or of Python
            raise MismatchError(f"--address {address}: {error}") from None
        return ray

    def close(self) -> None:
        try:
            if self._ray is not None:
                self._ray.shutdown()
        finally:  # whatever a second Ctrl-C meets
            if self._scratch is not None:
                _remove(self._scratch)


def _remove(directory: Path) -> None:
    """Ray's processes may write for a moment after its shutdown has returned."""
    deadline = time.monotonic() + 5.0
    rmtree(directory, ignore_errors=True)
    while directory.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
        rmtree(directory, ignore_errors=True)


def _import_ray() -> Any:
    # Read when Ray is imported. Somebody's own setting stays.
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtra("ray", "ray", "--executor ray") from None
    return ray


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, prints a stack and ends with 15."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _require_listener(address: str) -> None:
    """Ray would try for minutes. Raises OSError if nobody listens there, ValueError if it is no address."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def last_line(error: BaseException) -> str:
    """What Ray says at the end of an error, where the reason stands."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
