"""What a killed writer leaves: files and directories under temporary names, which nobody reads."""

from __future__ import annotations

import shutil
from pathlib import Path


def remove_leftovers(directory: Path) -> None:
    """Removes them from `directory`; only its one writer may ask for it."""
    for leftover in directory.glob(".tmp-*"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()
