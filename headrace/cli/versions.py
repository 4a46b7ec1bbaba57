"""`headrace versions`: what a dataset has been, and erasing what it no longer is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.tokenize.prune import Version

HELP = "list the versions of a dataset, erase old ones, give up an unfinished change"

EXAMPLE = """\
A version is named by the first 8 or more digits of its hash or of its content hash; DATASET@HASH opens it wherever a dataset is read.

--prune removes the files that only the named versions need. Their manifests stay, so that the list stays whole. A plan or run that needs a
pruned version is refused from then on. Nothing brings the files back.

exit codes: 0 fine; 1 the history is damaged; 2 no dataset, no such version, or nothing to give up; 75 a process is at work

examples:
  headrace versions corpus/
  headrace versions corpus/ --prune old --dry-run
  headrace versions corpus/ --prune 3f2a9c01 --prune 77aa01bc
  headrace versions corpus/ --abandon"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("dataset", metavar="DATASET", help="directory or fsspec URI")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--prune",
        action="append",
        metavar="VERSION|old",
        help="erase this version, or all but the newest; may be given several times",
    )
    what.add_argument(
        "--abandon",
        action="store_true",
        help="give up a `tokenize --onto` or `filter` that was not finished, and remove what it wrote",
    )
    parser.add_argument("--dry-run", action="store_true", help="with --prune: say what would go")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.outcome import print_json
    from headrace.errors import UsageError
    from headrace.tokenize.prune import abandon, prune, versions

    if args.dry_run and args.prune is None:
        raise UsageError("--dry-run goes with --prune")
    if args.abandon:
        removed = abandon(args.dataset)
        if args.json:
            print_json({"removed": removed})
        else:
            print(f"given up; {removed:,} files of it were removed, the dataset is as it was")
        return 0
    if args.prune is not None:
        names = prune(args.dataset, args.prune, rehearse=args.dry_run)
        if args.json:
            print_json({"dry_run": args.dry_run, "files": names})
        else:
            print(f"{len(names):,} files {'would go (--dry-run)' if args.dry_run else 'are gone'}")
        return 0
    found = versions(args.dataset)
    if args.json:
        print_json([_as_value(version) for version in found])
        return 0
    for version in found:
        print(_line(version))
    return 0


def _as_value(version: Version) -> dict[str, Any]:
    from dataclasses import asdict

    manifest = version.manifest
    return {
        "version": manifest.hash,
        "content_hash": manifest.content_hash,
        "parent": manifest.parent,
        "state": version.state,
        "change": manifest.change,
        "counts": asdict(manifest.counts),
        "rejects": manifest.rejects,
    }


def _line(version: Version) -> str:
    manifest, counts = version.manifest, version.manifest.counts
    return (
        f"{manifest.hash[:16]}  content {manifest.content_hash[:16]}  {version.state:12}  {manifest.change['kind']:8}  "
        f"{counts.documents:,} documents, {counts.tokens:,} tokens, {counts.shards:,} shards"
    )
