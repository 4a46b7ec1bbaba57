"""What the C library keeps of memory that was given back to it; docs/decisions/0061-memory-and-threads.md has the figures."""

from __future__ import annotations

import ctypes
from typing import Any, Final

# <malloc.h> of glibc; other libraries have neither function, and other habits.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_LARGE: Final = 16 << 20


def keep_heap_small() -> None:
    """From now on blocks of 16 MiB or more return to the system when they are freed, and threads share two arenas.

    By itself glibc gives each thread an arena. Smaller blocks stay: new ones from the system come page by page, zeroed, which
    takes longer than to fill them.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_ARENA_MAX, 2)
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _LARGE)


def return_freed_memory() -> None:
    """Returns what is free between blocks in use: a tokenizer leaves about as much behind as it keeps, once it is loaded."""
    trim = _function("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _function(name: str) -> Any:
    return getattr(ctypes.CDLL(None), name, None)
