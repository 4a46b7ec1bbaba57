"""`headrace tokenize`: from files of documents to a dataset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from headrace.cli.dedup_options import add_dedup_arguments, dedup_config
from headrace.cli.filter_options import add_filter_arguments, filter_config
from headrace.cli.interruption import TerminatedError, sigterm_raises, stopping, tell_stopped
from headrace.cli.quantities import byte_count
from headrace.errors import HeadraceError, UsageError

if TYPE_CHECKING:
    from headrace.tokenize.config import TokenizeConfig

HELP = "turn files of documents into shards of tokens, with lineage and a manifest"

EXAMPLE = """\
SOURCE is a file, a directory, a quoted glob or an fsspec URI such as s3://bucket/corpus. The order given is the order
of the dataset; directories and globs are sorted by name. Parquet, Arrow, TFRecord and JSON lines are told by their first
bytes; docs/inputs.md says what a row of each is.

A job that was interrupted or killed is continued by the same command, and gives the same bytes as one that was not,
with any --executor and --workers. Neither they nor --address, --max-rejects, --on-damage, --tokenizer-backend,
--exact-check, --progress and --json change a byte. Ctrl-C once finishes the open units; again, it stops at once.

A dataset that is complete is not made again: the command looks whether its files are there with the right sizes. Damage
that only their hashes show is found by `headrace verify`; --repair makes what is damaged anew, with the same bytes, and
replaces nothing if the sources no longer give them.

exit codes: 0 published, or was already; 1 nothing published: rejects over the budget, no documents, or damage;
2 bad usage or input; 3 a worker died; 75 too early: another process is at work, or a share is missing; 130 interrupted;
143 terminated

examples:
  headrace tokenize --out corpus/ --tokenizer tokenizer.json --workers 8 books/ 'web/*.parquet'
  headrace tokenize ... --executor ray --address auto    on the nodes of a Ray cluster; docs/clusters.md
  headrace tokenize ... --shard-of 3/16      the fourth of 16 shares, on any machine that sees --out; then, once,
  headrace tokenize ... --finish             (`headrace launch` writes both for SLURM and Kubernetes)
  headrace tokenize --out corpus/ --tokenizer tokenizer.json --dedup near crawl/
  headrace tokenize --out code/ --tokenizer tokenizer.json --documents files 'src/**/*.py' docs/
  headrace tokenize --onto corpus/ more/*.parquet      a new version with more documents; docs/versions.md
  headrace tokenize --out s3://bucket/corpus --tokenizer tokenizer.json --text-column body --id-column url \\
      --eos '<|endoftext|>' --compression zstd:3 s3://bucket/raw/"""

# What decides the bytes. Not given, it is as `TokenizeConfig` has it, or with --onto as the dataset was made.
_CONFIG = (
    "text_column", "id_column", "documents", "tfrecord_payload", "bos", "eos", "shard_bytes", "compression",
    "max_document_bytes", "tokenizer_recipe",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="what to tokenize, in this order")
    parser.add_argument(
        "--sources-from",
        action="append",
        default=[],
        metavar="FILE",
        help="a text file or URI with one more SOURCE a line; may be given several times",
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", metavar="URI", help="directory or fsspec URI of the dataset to make")
    where.add_argument(
        "--onto",
        metavar="DATASET",
        help="add the sources to this dataset: a new version of it, tokenized as it was",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="a tokenizer.json, a tiktoken rank file (cl100k_base.tiktoken, ...) or a SentencePiece BPE model; with --onto "
        "the dataset's own is used",
    )
    parser.add_argument(
        "--tokenizer-recipe",
        metavar="FILE",
        help="JSON with the pattern and special tokens of a rank file that is not a known one",
    )
    parser.add_argument(
        "--text-column",
        metavar="NAME",
        help="column, feature or field; outer.inner for a nested one (default: text, content, ...)",
    )
    parser.add_argument("--id-column", metavar="NAME", help="column or feature with the document id")
    parser.add_argument(
        "--documents",
        choices=["rows", "files"],
        help="a document is a row of a table, record or line (default), or a whole file of text or code",
    )
    parser.add_argument(
        "--tfrecord-payload",
        choices=["example", "text"],
        help="what a TFRecord record holds: a tf.train.Example (default), or the text itself",
    )
    parser.add_argument(
        "--eos",
        metavar="auto|none|TOKEN",
        help="token after each document (default: auto, the tokenizer's own end-of-text token)",
    )
    parser.add_argument("--bos", metavar="none|TOKEN", help="token before each document (default: none)")
    parser.add_argument(
        "--shard-bytes",
        type=byte_count,
        metavar="N",
        help="most bytes in a shard (default: 64M); a corpus below some GB has smaller ones, so that all cores have work",
    )
    parser.add_argument("--compression", metavar="none|zstd[:LEVEL]", help="of shards (default: none)")
    parser.add_argument(
        "--max-document-bytes",
        type=byte_count,
        metavar="N",
        help="reject longer texts (default: 16M)",
    )
    add_filter_arguments(parser)
    add_dedup_arguments(parser)
    parser.add_argument(
        "--tokenizer-backend",
        choices=["auto", "fast", "reference"],
        default="auto",
        help="what encodes: auto (default) takes fastokens where it is installed, agrees with tokenizers and pays",
    )
    parser.add_argument(
        "--exact-check",
        choices=["sample", "full"],
        default="sample",
        help="hold the fast backend to tokenizers on a sample of each file (default), or on every document",
    )
    parser.add_argument(
        "--executor",
        choices=["local", "ray"],
        default="local",
        help="who does the work: processes of this machine (default), or the nodes of a Ray cluster",
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT|auto|local",
        help="the Ray cluster (default: RAY_ADDRESS, else local: one of this machine's cores that ends with the job)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes (default: one a core and 128 MiB of text, each with threads for the rest; with ray one a core of the cluster)",
    )
    parser.add_argument(
        "--max-rejects",
        type=float,
        default=0.01,
        metavar="FRACTION",
        help="publish only if no more rows than this were rejected for faults; what filters reject is not counted "
        "(default: 0.01)",
    )
    parser.add_argument(
        "--on-damage",
        choices=["stop", "quarantine"],
        default="stop",
        help="what to do about damaged row groups and records: stop (default), or reject their rows",
    )
    share = parser.add_mutually_exclusive_group()
    share.add_argument(
        "--shard-of", metavar="I/N", help="do only share I (from 0) of N of the work, and publish nothing"
    )
    share.add_argument(
        "--finish", action="store_true", help="publish what the shares did; refuse if one is missing"
    )
    share.add_argument(
        "--estimate",
        action="store_true",
        help="tokenize a sample, print documents, tokens, bytes and time to expect, and write nothing",
    )
    share.add_argument(
        "--repair",
        action="store_true",
        help="verify the dataset that this command made, and make damaged files anew from the sources",
    )
    parser.add_argument(
        "--scan",
        action="store_true",
        help="with --dedup, before shares tokenize: with --shard-of, do that share of looking for duplicates; then, once, with "
        "--finish, decide which there are",
    )
    parser.add_argument(
        "--progress",
        choices=["auto", "live", "plain", "none"],
        default="auto",
        help="on stderr: live lines, plain key=value lines for logs, or none (default: auto, live on a terminal)",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON on stdout")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.outcome import tell_estimate, tell_outcome, tell_repaired, tell_scan, tell_share
    from headrace.cli.progress import reporter
    from headrace.dataeng.sources.location import read_list
    from headrace.tokenize.config import Execution, Share, TokenizeConfig
    from headrace.tokenize.pipeline import estimate, repair, tokenize
    from headrace.tokenize.shares import finish_scan, finish_shares, scan_share, tokenize_share

    places = [*args.sources, *(place for name in args.sources_from for place in read_list(name))]
    given = {name: value for name in _CONFIG if (value := getattr(args, name)) is not None}
    if given.get("compression") == "zstd":
        given["compression"] = "zstd:3"
    given["filters"] = filter_config(args)
    given["dedup"] = dedup_config(args)
    if args.scan and args.shard_of is None and not args.finish:
        raise UsageError(
            "--scan is a step of a job in shares: give --shard-of I/N or --finish with it, or leave it out"
        )
    out, onto = (args.out, False) if args.onto is None else (args.onto, True)
    config = _config_onto(out, given) if onto else TokenizeConfig(**given)
    show = reporter(args.progress)
    execution = Execution(
        executor=args.executor,
        address=args.address,
        workers=args.workers,
        max_rejects=args.max_rejects,
        quarantine_damage=args.on_damage == "quarantine",
        tokenizer_backend=args.tokenizer_backend,
        exact_check=args.exact_check,
        on_progress=show,
        on_stop=lambda num_open: show.say(stopping(num_open)),
    )
    job = (places, args.tokenizer, out, config, execution)
    try:
        with sigterm_raises():
            if args.shard_of is not None:
                share = Share.parse(args.shard_of)
                told = (scan_share if args.scan else tokenize_share)(*job, share=share, onto=onto)
                tell_share(told, args.shard_of, scanned=args.scan, as_json=args.json)
                return 0
            if args.scan:
                tell_scan(finish_scan(*job, onto=onto), as_json=args.json)
                return 0
            if args.estimate:
                tell_estimate(estimate(*job, onto=onto), as_json=args.json)
                return 0
            if args.repair:
                return tell_repaired(repair(*job, onto=onto), out, as_json=args.json)
            outcome = (finish_shares if args.finish else tokenize)(*job, onto=onto)
    except (KeyboardInterrupt, TerminatedError) as error:
        show.close()
        show.accounts()
        return tell_stopped(error)
    except HeadraceError:
        show.close()
        show.accounts()
        raise
    finally:
        show.close()
    tell_outcome(outcome, out, as_json=args.json)
    show.summary()
    return 0


def _config_onto(out: str, given: dict[str, Any]) -> TokenizeConfig:
    from headrace.tokenize.append import config_onto, open_newest

    return config_onto(open_newest(out).manifest, given)
