"""Every error headrace raises on purpose.

    HeadraceError
    ├── UsageError        the caller's arguments or configuration            exit 2
    │   └── MissingExtra  an optional dependency is not installed            exit 2
    ├── InputError        a source file or a store cannot be read            exit 2
    ├── MismatchError     a plan, cursor, job or run is not the one expected exit 2
    ├── DamageError       bytes differ from the hash recorded for them       exit 1
    ├── BudgetError       too many rejects, or nothing left to publish       exit 1
    ├── IncompleteError   too early: others have not finished yet             exit 75
    └── WorkerError       a worker process or a rank ended unexpectedly      exit 3

A message says what was found, what was expected, what follows and what to do; catching `HeadraceError`
catches all of them. Built-in errors stay themselves where they say it best (`FileNotFoundError` from a store).
"""

from __future__ import annotations

from typing import ClassVar


class HeadraceError(Exception):
    """Base of all deliberate errors; `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 2


class UsageError(HeadraceError):
    """An argument or a configuration value cannot be used."""


class MissingExtra(UsageError):
    """An optional dependency is absent; the message carries the pip line that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; run: pip install 'headrace[{extra}]'"
        )


class InputError(HeadraceError):
    """A source file or a store cannot be read, or is refused."""


class MismatchError(HeadraceError):
    """Two things that must agree (plan and cursor, job and directory) do not."""


class DamageError(HeadraceError):
    """Stored bytes are not the ones that were written."""

    exit_code = 1


class BudgetError(HeadraceError):
    """Too much was rejected, or nothing was left to publish."""

    exit_code = 1


class IncompleteError(HeadraceError):
    """Too early: another process is at work, or a share is not done. 75 is EX_TEMPFAIL: the same may work later."""

    exit_code = 75


class WorkerError(HeadraceError):
    """A worker process or a rank ended without finishing its work."""

    exit_code = 3
