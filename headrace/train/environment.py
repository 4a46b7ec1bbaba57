"""Which of how many processes this is, read from what torchrun sets. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """rank: of all processes, from 0. local_rank: of those on this machine. size: how many there are in all.

    launched: whether torchrun (or anything that sets its variables) started this process.
    """

    rank: int = 0
    local_rank: int = 0
    size: int = 1
    launched: bool = False

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Place:
        """Raises `UsageError` if some of torchrun's variables are set and others are not, or are no place in a job."""
        needed = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        if "RANK" not in variables and "WORLD_SIZE" not in variables:
            return cls()
        missing = [name for name in needed if name not in variables]
        if missing:
            raise UsageError(
                f"the environment sets some of torchrun's variables but not {', '.join(missing)}; start the job with "
                "torchrun, or unset RANK and WORLD_SIZE for a single process"
            )
        try:
            rank, local_rank, size = (int(variables[name]) for name in needed[:3])
        except ValueError:
            rank = local_rank = size = -1
        if not 0 <= local_rank <= rank < size:
            found = ", ".join(f"{name}={variables[name]!r}" for name in needed[:3])
            raise UsageError(f"the environment sets {found}; expected 0 <= LOCAL_RANK <= RANK < WORLD_SIZE")
        return cls(rank=rank, local_rank=local_rank, size=size, launched=True)
