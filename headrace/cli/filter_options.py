"""The options of `headrace tokenize` that leave documents out, and what a manifest says of them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.dataeng.printable import printable

if TYPE_CHECKING:
    from headrace.tokenize.filters.config import Decontamination, FilterConfig


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group(
        "filters", "what is left out, in this order; docs/filters.md has the rules and the reasons"
    )
    filters.add_argument(
        "--hook",
        metavar="MODULE:FUNCTION",
        help="a function of yours, list[str] -> list[str | None]: each text changed or not, or None to reject it",
    )
    filters.add_argument(
        "--min-chars", type=int, metavar="N", help="reject documents of fewer Unicode characters"
    )
    filters.add_argument(
        "--max-chars", type=int, metavar="N", help="reject documents of more Unicode characters"
    )
    filters.add_argument(
        "--quality",
        action="append",
        default=[],
        metavar="gopher|fineweb|code|FILE",
        help="reject documents that fail a rule of a preset, or of a JSON file of rules; may be given several times",
    )
    filters.add_argument(
        "--decontaminate",
        action="append",
        default=[],
        metavar="FILE",
        help="reject documents that share a run of words with an evaluation: a file of any input format, or .txt; may be "
        "given several times",
    )
    filters.add_argument(
        "--decontaminate-column",
        action="append",
        default=[],
        metavar="NAME",
        help="column or field with a text of the evaluations, in all of them; may be given several times "
        "(default: text, content, ...)",
    )
    filters.add_argument(
        "--decontaminate-ngram", type=int, metavar="N", help="words of such a run (default: 13)"
    )
    filters.add_argument(
        "--decontaminate-share",
        type=float,
        metavar="FRACTION",
        help="of its words, that a document may have in such runs (default: 0, not one run)",
    )


def filter_config(args: argparse.Namespace) -> FilterConfig:
    """Raises UsageError."""
    from headrace.tokenize.filters.config import FilterConfig

    quality = {}
    if args.quality:
        from headrace.tokenize.filters.quality import thresholds_of

        quality = thresholds_of(args.quality)
    return FilterConfig(
        hook=args.hook,
        min_chars=args.min_chars,
        max_chars=args.max_chars,
        quality=quality,
        decontamination=_decontamination(args),
    )


def _decontamination(args: argparse.Namespace) -> Decontamination | None:
    from headrace.errors import UsageError
    from headrace.tokenize.filters.config import Decontamination

    given = {
        "columns": tuple(args.decontaminate_column) or None,
        "ngram": args.decontaminate_ngram,
        "share": args.decontaminate_share,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if args.decontaminate:
        return Decontamination(places=tuple(args.decontaminate), **given)
    if given:
        option = next(iter(given)).removesuffix("s")
        raise UsageError(f"--decontaminate-{option} says how, but no --decontaminate what to look for")
    return None


def filter_rows(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """For a table: what a dataset's manifest (`config`) says of its filters, a filter a row."""
    filters = config.get("filters")
    return [
        ("" if number else "filters", printable(f"{name} {_in_words(value)}"))
        for number, (name, value) in enumerate(filters.items() if isinstance(filters, dict) else ())
    ]


def _in_words(value: Any) -> str:
    """A manifest may have come from anywhere, so nothing is taken for granted of what it holds."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(str(v.get("name")) if isinstance(v, dict) else str(v) for v in value) + "]"
    return str(value)
