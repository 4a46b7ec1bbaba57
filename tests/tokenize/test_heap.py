from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.tokenize.heap import keep_heap_small, return_freed_memory

# Frees all but every 64th of many small blocks, as parsing a tokenizer file does, and says how much memory is left in use.
_SCATTER = """
from pathlib import Path
from headrace.tokenize.heap import keep_heap_small, return_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

before = resident()
blocks = [bytes(4096) for _ in range(30_000)]
keep = blocks[::64]
grown = resident() - before
del blocks
return_freed_memory()
print(grown, resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_memory_freed_between_blocks_in_use_returns_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _SCATTER], capture_output=True, text=True, check=True)
    grown, left = map(int, done.stdout.split())
    assert grown > 100e6
    assert left < grown / 4


def test_a_c_library_without_these_functions_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: tmp_path)  # a thing without such attributes
    keep_heap_small()
    return_freed_memory()
