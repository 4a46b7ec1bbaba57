"""Why a filter left out a row. Unlike a fault of the input, this is what the user asked for: no budget counts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.tokenize.dedup.config import DUPLICATE, NEAR_DUPLICATE

HOOK: Final = "hook"  # the hook gave back None, or nothing but white space
SHORT: Final = "length:short"  # fewer characters than --min-chars
LONG: Final = "length:long"  # more characters than --max-chars
QUALITY: Final = "quality"  # with the rule: "quality:max_repeated_lines"
CONTAMINATED: Final = "contaminated"  # with the name of the evaluation: "contaminated:gsm8k.jsonl"
TAKEN_DOWN: Final = "taken_down"  # a document of an earlier version, by `headrace filter`

# What stands before the colon, or is all of the reason. `--max-rejects` counts every other reason.
FILTERED: Final = frozenset({"hook", "length", QUALITY, CONTAMINATED, DUPLICATE, NEAR_DUPLICATE, TAKEN_DOWN})


def was_asked_for(reason: str) -> bool:
    """Whether rows are rejected for this reason because a filter was given, and not because of a fault."""
    return reason.partition(":")[0] in FILTERED


def num_faults(rejects: Mapping[str, int]) -> int:
    """How many of the rejected rows no filter was asked to reject."""
    return sum(count for reason, count in rejects.items() if not was_asked_for(reason))
