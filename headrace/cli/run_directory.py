"""What the verbs that look at a run need of its directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import InputError

if TYPE_CHECKING:
    from headrace.dataeng.plan import Plan
    from headrace.manifests.ledger import Record


def read_run_ledger(run: Path) -> list[Record]:
    """The records of a run's ledger; raises `InputError` if there is none."""
    from headrace.manifests.ledger import LEDGER, read_ledger

    try:
        return read_ledger(run / LEDGER)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{run / LEDGER} does not exist: {run} is not a run directory, or its first step has not finished"
        ) from None


def read_run_plan(path: Path) -> Plan:
    """The plan of a run directory, or a plan file."""
    from headrace.dataeng.plan import Plan

    file = path / "plan.json" if path.is_dir() else path
    try:
        return Plan.load(file)
    except FileNotFoundError:
        raise InputError(
            f"{file} does not exist: {path} is neither a run directory nor a plan file"
        ) from None
