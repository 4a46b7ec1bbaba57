"""The options of `headrace tokenize` that ask for duplicates to be left out."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.tokenize.dedup.config import DedupConfig


def add_dedup_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "duplicates",
        "found in the whole corpus among what filters keep, and the first is kept; docs/dedup.md",
    )
    group.add_argument(
        "--dedup",
        choices=["none", "exact", "near"],
        default="none",
        help="leave out documents with the same text as an earlier one (exact), or also with nearly the same words (near; "
        "needs the extra dedup); default: none",
    )
    group.add_argument(
        "--dedup-threshold",
        type=float,
        metavar="J",
        help="of near: the least Jaccard similarity of the runs of 5 words of two texts (default: 0.8)",
    )


def dedup_config(args: argparse.Namespace) -> DedupConfig:
    """Raises UsageError."""
    from headrace.tokenize.dedup.config import DedupConfig

    if args.dedup_threshold is None:
        return DedupConfig(kind=args.dedup)
    if args.dedup != "near":
        raise UsageError(f"--dedup-threshold says how near, and --dedup is {args.dedup}; give --dedup near")
    return DedupConfig(kind=args.dedup, threshold=args.dedup_threshold)
