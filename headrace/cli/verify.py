"""`headrace verify`: is a dataset, to the last byte, what was published?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.tokenize.verify import Problem

HELP = "check every byte, count and name of a dataset against its manifest"

EXAMPLE = """\
Every file is read and hashed; every shard's structure, token ids and lineage are checked against each other. Damage
is named down to the documents where the lineage allows.

exit codes: 0 all of it is as published; 1 damage, listed; 2 no dataset there

examples:
  headrace verify corpus/
  headrace verify s3://bucket/corpus --json > report.json"""

_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("dataset", metavar="DATASET", help="directory or fsspec URI")
    parser.add_argument(
        "--threads", type=int, metavar="N", help="shards read at a time (default: one a core)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON, with every document")


def run(args: argparse.Namespace) -> int:
    from headrace.errors import UsageError
    from headrace.tokenize.verify import verify

    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads {args.threads}: expected 1 or more")
    live = sys.stderr.isatty() and not args.json

    def show(done: int) -> None:
        if live:
            print(f"\r{done:,} shards", end="", file=sys.stderr, flush=True)

    report = verify(args.dataset, threads=args.threads, on_shard=show)
    if live:
        print(file=sys.stderr)
    if args.json:
        import json
        from dataclasses import asdict

        print(json.dumps({"ok": report.ok, **asdict(report)}, indent=1, sort_keys=True))
        return 0 if report.ok else 1
    for problem in report.problems:
        print(_describe(problem))
    verdict = "intact" if report.ok else f"DAMAGED: {len(report.problems):,} problems"
    print(
        f"{verdict}: {report.shards:,} shards, {report.documents:,} documents, {report.tokens:,} tokens, "
        f"{report.bytes:,} bytes read\nmanifest {report.manifest}"
    )
    if not report.ok:
        print(
            "Put those files back from a copy, or move the dataset away and run its `headrace tokenize` command again: the "
            "same inputs give the same bytes"
        )
    return 0 if report.ok else 1


def _describe(problem: Problem) -> str:
    from headrace.dataeng.lineage import place

    lines = [f"{problem.file}: {problem.problem}"]
    if problem.documents:
        lines.append(f"  {len(problem.documents):,} documents cannot be shown to be intact:")
    for entry in problem.documents[:_SHOWN]:
        where = place(entry["row_group"], entry["row"], entry["byte_offset"])
        name = f" id {entry['document_id']!r}" if entry["document_id"] is not None else ""
        lines.append(f"  document {entry['document']:,}{name}: {entry['source']}, {where}")
    if len(problem.documents) > _SHOWN:
        lines.append(f"  and {len(problem.documents) - _SHOWN:,} more (--json lists all)")
    return "\n".join(lines)
