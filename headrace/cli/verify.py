"""`headrace verify`: is a dataset, to the last byte, what was published?"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from headrace.cli.terminal import clip, duration
from headrace.dataeng.printable import printable

if TYPE_CHECKING:
    from headrace.tokenize.shard_check import Problem
    from headrace.tokenize.verify import Looked

HELP = "check every byte, count and name of a dataset against its manifest"

EXAMPLE = """\
Every file is read and hashed; every shard's structure, token ids and lineage are checked against each other. Damage
is named down to the documents where the lineage allows: documents whose tokens still decode to the text that was read
are not listed. What is wrong is printed as it is found. docs/inspect.md says what can be known.

Nothing is written into the dataset. With --state FILE intact shards are noted in FILE: after an interruption, or once
damaged files have been put back, the same command looks only at the others. FILE is removed once all is intact.

exit codes: 0 all of it is as published; 1 damage, listed; 2 no dataset there; 75 another verification has FILE;
130 interrupted

examples:
  headrace verify corpus/
  headrace verify s3://bucket/corpus --json > report.json
  headrace verify s3://bucket/corpus --state corpus.verify      may be interrupted and run again"""

_SHOWN = 5
_LIVE_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "dataset", metavar="DATASET", help="directory or fsspec URI; DATASET@HASH for an older version"
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="shards read at a time (default: one a core, on an object store 16; fewer if they are large)",
    )
    parser.add_argument("--state", metavar="FILE", help="a local file from which, and in which, to continue")
    parser.add_argument(
        "--json", action="store_true", help="print the report as JSON, with the documents (100,000 at most)"
    )


def run(args: argparse.Namespace) -> int:
    from headrace.errors import UsageError
    from headrace.tokenize.verify import verify

    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads {args.threads}: expected 1 or more")
    show = _Live(enabled=sys.stderr.isatty())

    def tell(problem: Problem) -> None:
        if not args.json:
            show.clear()
            print(_describe(problem), flush=True)

    try:
        report = verify(
            args.dataset, threads=args.threads, state=args.state, on_look=show.look, on_problem=tell
        )
    finally:
        show.clear()
    if args.json:
        import json
        from dataclasses import asdict

        print(json.dumps({"ok": report.ok, **asdict(report)}, indent=1, sort_keys=True))
        return 0 if report.ok else 1
    believed = f", {report.believed:,} shards found intact by an earlier run" if report.believed else ""
    verdict = "intact" if report.ok else f"DAMAGED: {len(report.problems):,} problems"
    print(
        f"{verdict}: {report.shards:,} shards, {report.documents:,} documents, {report.tokens:,} tokens, "
        f"{report.bytes:,} bytes read{believed}\nmanifest {report.manifest}"
    )
    if not report.ok:
        print(
            "Put those files back from a copy; or, if `headrace tokenize` made the dataset, add --repair to its command: it "
            "makes them anew from the sources, the same bytes"
        )
    return 0 if report.ok else 1


class _Live:
    """One line that rewrites itself, on a terminal."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._begun = time.monotonic()
        self._last = 0.0
        self._shown = False

    def look(self, looked: Looked) -> None:
        now = time.monotonic()
        if not self._enabled or now - self._last < _LIVE_SECONDS:
            return
        import shutil

        self._last, self._shown = now, True
        rate = looked.read_bytes / max(now - self._begun, 1e-3)
        line = (
            f"{looked.shards:,} of {looked.num_shards:,} shards  {rate / 1e9:.2f} GB/s  "
            f"{duration(looked.left_bytes / max(rate, 1.0))} left  {looked.problems:,} problems"
        )
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{clip(line, columns)}\x1b[K", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._shown = False


def _describe(problem: Problem) -> str:
    from headrace.dataeng.lineage import place

    lines = [f"{problem.file}: {printable(problem.problem)}"]
    shown = problem.documents[:_SHOWN]
    if problem.num_documents:
        lines.append(
            f"  {problem.num_documents:,} documents cannot be shown to be intact{':' if shown else ''}"
        )
    for entry in shown:
        where = place(entry["row_group"], entry["row"], entry["byte_offset"])
        name = f" id {entry['document_id']!r}" if entry["document_id"] is not None else ""
        lines.append(f"  document {entry['document']:,}{name}: {printable(entry['source'])}, {where}")
    if shown and problem.num_documents > len(shown):
        lines.append(f"  and {problem.num_documents - len(shown):,} more (--json lists them)")
    return "\n".join(lines)
