"""How loops are compiled: no Python objects, GIL released, machine code cached on disk between processes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compiles `function` on first call.

    Integer arithmetic wraps. Mix uint64 only with uint64: numba makes float64 of uint64 with int64.
    """
    compiled = numba.njit(function, nogil=True, error_model="numpy")
    try:
        compiled.enable_caching()
        # numba asks only whether a function's own file has changed. What it calls is compiled into it, so a change of
        # mix.py would leave the old order in the cache of locate.py: on this machine, and not on the next.
        file = compiled._cache._cache_file
        file._source_stamp = (file._source_stamp, _sources())
    except (RuntimeError, AttributeError):  # nowhere to write, or another numba: compile in each process
        return numba.njit(function, nogil=True, error_model="numpy")  # type: ignore[no-any-return]
    return compiled  # type: ignore[no-any-return]


@cache
def _sources() -> str:
    """SHA-256 over this directory's files."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
