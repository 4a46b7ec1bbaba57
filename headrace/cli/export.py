"""`headrace export`: a dataset as files of another tool."""

from __future__ import annotations

import argparse
import sys

HELP = "write a dataset as token files of another tool: Megatron"

EXAMPLE = """\
The two files are byte for byte what Megatron's own IndexedDatasetBuilder writes of the same documents, one sequence a
document. They appear once they are complete. docs/formats/megatron.md has every byte.

exit codes: 0 written; 1 the dataset is damaged; 2 bad usage, or the files are there already; 75 another process is
writing them; 130 interrupted

example:
  headrace export --format megatron --out data/web_text_document corpus/
  headrace export --format megatron --out data/web_text_document corpus/@0123abcd      an older version"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("dataset", metavar="DATASET", help="directory or fsspec URI, perhaps with @VERSION")
    parser.add_argument("--format", required=True, choices=["megatron"], help="whose files")
    parser.add_argument(
        "--out", required=True, metavar="PREFIX", help="local path, to which .bin and .idx are added"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON on stdout")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from headrace.cli.interruption import TerminatedError, sigterm_raises
    from headrace.cli.outcome import print_json
    from headrace.convert.megatron_out import export_megatron
    from headrace.dataeng.dataset import Dataset
    from headrace.dataeng.printable import printable

    dataset = Dataset.open(args.dataset)
    try:
        with sigterm_raises():
            told = export_megatron(dataset, args.out)
    except (KeyboardInterrupt, TerminatedError) as error:
        print("\nheadrace: stopped; nothing was written", file=sys.stderr)
        return 130 if isinstance(error, KeyboardInterrupt) else 143
    if args.json:
        print_json({"manifest": dataset.manifest.hash, **asdict(told)})
    else:
        print(
            f"{printable(args.out)}.bin and .idx: {told.documents:,} documents, {told.tokens:,} tokens as {told.dtype}, "
            f"{told.bytes:,} bytes, of version {dataset.manifest.hash[:16]}"
        )
    return 0
