"""`headrace merge`: several datasets into one."""

from __future__ import annotations

import argparse

HELP = "join datasets of one tokenizer into a new one that needs none of them"

EXAMPLE = """\
The shards are copied as they are and hashed on the way, with their lineage, under new names; their documents stand in the order in which the
datasets are given. The datasets have to agree in tokenizer, document frame, dtype, compression and shard size, and no source may be in
two of them. DATASET@HASH takes an older version.

A merge that was killed is continued by the same command.

exit codes: 0 merged, or was already; 1 a file is damaged; 2 bad usage or input, or datasets that do not go together; 75 another
process is at work

examples:
  headrace merge --out all/ books/ web/ code/
  headrace merge --out s3://bucket/all s3://bucket/books s3://bucket/web@3f2a9c01"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "datasets", nargs="+", metavar="DATASET", help="directories or fsspec URIs, in this order"
    )
    parser.add_argument(
        "--out", required=True, metavar="URI", help="directory or fsspec URI of the new dataset"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="units copied at a time (default: one a core)"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.counter import counter
    from headrace.cli.outcome import as_value, dataset_table, print_json
    from headrace.dataeng.cores import num_cores
    from headrace.errors import UsageError
    from headrace.tokenize.merge import merge
    from headrace.tokenize.pipeline import Outcome

    if args.threads is not None and args.threads < 1:
        raise UsageError(f"--threads {args.threads}: expected 1 or more")
    threads = num_cores() if args.threads is None else args.threads
    with counter(quiet=args.json) as show:
        manifest, already_complete = merge(args.datasets, args.out, threads=threads, on_progress=show)
    if args.json:
        outcome = Outcome(manifest=manifest, already_complete=already_complete, ignored=())
        print_json(as_value(outcome))
    else:
        print(dataset_table(manifest, args.out, already_complete=already_complete))
    return 0
