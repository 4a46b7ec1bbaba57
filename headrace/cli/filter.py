"""`headrace filter`: take documents out of a dataset, into a new version."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.tokenize.document_list import DocumentList
    from headrace.tokenize.takedown import Takedown, TakedownOutcome

HELP = "take documents out of a dataset by their lineage: a new version, the old one can still be verified"

EXAMPLE = """\
PREDICATE is made of tests of lineage columns, joined by and, or, not and parentheses:
  source, document_id               = != in ('a', 'b')   glob 'web/*.parquet'   is null, is not null
  text_hash                         = != in ('32 hexadecimal digits')
  row_group, row, byte_offset, text_bytes, tokens        = != < <= > >= in (1, 2)   is null, is not null
* in a glob is any text, slashes too. A quote inside a string is written twice. As in SQL, a test of a null is not true.

FILE of --documents-from, or an fsspec URI: document ids, one a line; or JSON lines or Parquet with document_id, or text_hash, or source and
row (and row_group where lineage has one). docs/versions.md says what stays of what was taken down, and how to erase it.

A command that was killed is continued by the same command.

exit codes: 0 the new version is the newest (or was already), or it was a --dry-run; 1 damage, or no document would be left;
2 bad usage or input, nothing selected, or another change is unfinished; 75 another process is at work

examples:
  headrace filter corpus/ --drop --documents-from takedown.txt --dry-run
  headrace filter corpus/ --drop --where "source glob 'web/*' and (tokens < 8 or document_id is null)"
  headrace filter corpus/ --keep --where "source != 'books/old.parquet'\""""

_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("dataset", metavar="DATASET", help="directory or fsspec URI")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--drop", action="store_true", help="take out the documents that are selected")
    what.add_argument("--keep", action="store_true", help="take out all others")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--where", metavar="PREDICATE", help="select by lineage; the manifest will say the predicate"
    )
    which.add_argument(
        "--documents-from",
        metavar="FILE",
        help="select what is listed; the manifest will say the list's hash",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    parser.add_argument("--threads", type=int, metavar="N", help="shards at a time (default: one a core)")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.counter import counter
    from headrace.dataeng.cores import num_cores
    from headrace.errors import UsageError
    from headrace.tokenize.takedown import take_down

    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads {args.threads}: expected 1 or more")
    takedown, listed = _takedown(args)
    threads = num_cores() if args.threads is None else args.threads
    with counter(quiet=args.json) as show:
        outcome = take_down(args.dataset, takedown, threads=threads, rehearse=args.dry_run, on_progress=show)
    missing = [] if listed is None or outcome.already_complete else listed.not_found()
    if args.json:
        from headrace.cli.outcome import print_json

        print_json(_as_value(outcome, missing))
    else:
        _tell(outcome, args.dataset, missing)
    return 0


def _takedown(args: argparse.Namespace) -> tuple[Takedown, DocumentList | None]:
    from headrace.tokenize.document_list import read_document_list
    from headrace.tokenize.predicate import parse
    from headrace.tokenize.takedown import Takedown

    if args.where is not None:
        return Takedown(selection=parse(args.where), keep=args.keep, told={"where": args.where}), None
    listed = read_document_list(args.documents_from)
    told = {"documents": len(listed), "documents_digest": listed.digest}
    return Takedown(selection=listed, keep=args.keep, told=told), listed


def _as_value(outcome: TakedownOutcome, missing: list[dict[str, Any]]) -> dict[str, Any]:
    manifest = outcome.manifest
    return {
        "parent": outcome.parent.hash,
        "manifest": None if manifest is None else manifest.hash,
        "content_hash": None if manifest is None else manifest.content_hash,
        "already_complete": outcome.already_complete,
        "shards_affected": len(outcome.affected),
        "documents": outcome.total("documents"),
        "tokens": outcome.total("tokens"),
        "text_bytes": outcome.total("text_bytes"),
        "documents_by_source": dict(outcome.sources),
        "not_found": missing,
    }


def _tell(outcome: TakedownOutcome, where: str, missing: list[dict[str, Any]]) -> None:
    from headrace.cli.outcome import dataset_table
    from headrace.dataeng.printable import printable

    for entry in missing[:_SHOWN]:
        print(f"headrace: no document has {printable(str(entry))}", file=sys.stderr)
    if missing:
        print(
            f"headrace: {len(missing):,} of the list are not in the dataset (--json lists all)",
            file=sys.stderr,
        )
    if outcome.already_complete:
        assert outcome.manifest is not None
        print(dataset_table(outcome.manifest, where, already_complete=True))
        return
    would = "would go" if outcome.manifest is None else "are gone"
    print(
        f"{outcome.total('documents'):,} of {outcome.parent.counts.documents:,} documents {would}: "
        f"{outcome.total('tokens'):,} tokens, from {len(outcome.affected):,} of {outcome.parent.counts.shards:,} shards"
    )
    sources = outcome.sources.most_common()
    for source, documents in sources[:_SHOWN]:
        print(f"  {documents:>14,}  {printable(source)}")
    if len(sources) > _SHOWN:
        print(f"  and {len(sources) - _SHOWN:,} more sources (--json lists all)")
    if outcome.manifest is None:
        print("nothing was changed (--dry-run)")
        return
    print(dataset_table(outcome.manifest, where))
    print("\nThe version before still holds them; `headrace versions --prune` erases it.")
