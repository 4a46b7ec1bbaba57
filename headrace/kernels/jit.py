"""How loops are compiled: no Python objects, GIL released, machine code cached on disk between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compiles `function` on first call.

    Integer arithmetic wraps. Mix uint64 only with uint64: numba makes float64 of uint64 with int64.
    """
    compiled: F = numba.njit(function, nogil=True, cache=True, error_model="numpy")
    return compiled
