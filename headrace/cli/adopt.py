"""`headrace adopt`: from token files of other tools to a dataset."""

from __future__ import annotations

import argparse

from headrace.cli.interruption import TerminatedError, sigterm_raises, stopping, tell_stopped
from headrace.cli.quantities import byte_count
from headrace.errors import HeadraceError

HELP = "make a dataset of token files of other tools: MDS, Megatron, datatrove, NumPy"

EXAMPLE = """\
SOURCE is a directory with the index.json of a token MDS dataset (or with such directories in it), PREFIX.bin or
PREFIX.idx of Megatron, a .ds of datatrove, a .npy, raw integers as nanoGPT and llm.c write them, a directory or quoted
glob of these, or an fsspec URI. docs/converters.md has what is read of each, and what is refused.

Every id is checked against the vocabulary, and every document is in the dataset or listed as rejected. A job that was
interrupted or killed is continued by the same command, and gives the same bytes with any --workers.

exit codes: 0 published, or was already; 1 nothing published: damage, or no documents; 2 bad usage or input, ids that are
none of the tokenizer's; 3 a worker died; 75 another process is at work; 130 interrupted; 143 terminated

examples:
  headrace adopt --out corpus/ --tokenizer tokenizer.json --eos '<|endoftext|>' s3://bucket/mds/
  headrace adopt --out corpus/ --tokenizer tokenizer.json data/web_text_document.idx data/code_text_document.idx
  headrace adopt ... --shard-of 3/16      the fourth of 16 jobs, on any machine that sees --out; then, once,
  headrace adopt ... --finish
  headrace adopt --out corpus/ --vocab-size 50257 --dtype uint16 --split-after 50256 train.bin"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="token files, in this order")
    parser.add_argument(
        "--out", required=True, metavar="URI", help="directory or fsspec URI of the dataset to make"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--tokenizer", metavar="FILE", help="the tokenizer that made the ids")
    which.add_argument(
        "--vocab-size",
        type=int,
        metavar="N",
        help="where it is not at hand: the ids are 0 to N - 1, and are shown as numbers",
    )
    parser.add_argument(
        "--eos",
        default="none",
        metavar="none|TOKEN",
        help="every document ends with this token (with --vocab-size: an id), which is checked (default: none)",
    )
    parser.add_argument("--bos", default="none", metavar="none|TOKEN", help="every document begins with it")
    parser.add_argument(
        "--column",
        metavar="NAME",
        help="MDS: the column of token ids (default: tokens, or input_ids)",
    )
    parser.add_argument(
        "--dtype",
        metavar="TYPE",
        help="of ids where the file does not say: raw files; bytes columns of MDS (default: int64)",
    )
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument(
        "--split-after", type=int, metavar="ID", help="one run of tokens: a document ends behind each such id"
    )
    ends.add_argument(
        "--split-before",
        type=int,
        metavar="ID",
        help="one run of tokens: a document begins with each such id",
    )
    ends.add_argument(
        "--document-tokens", type=int, metavar="N", help="one run of tokens: documents of N tokens each"
    )
    parser.add_argument(
        "--shard-bytes",
        type=byte_count,
        default=64 << 20,
        metavar="N",
        help="most bytes in a shard (default: 64M)",
    )
    parser.add_argument(
        "--compression", default="none", metavar="none|zstd[:LEVEL]", help="of shards (default: none)"
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
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    parser.add_argument(
        "--max-rejects",
        type=float,
        default=0.01,
        metavar="FRACTION",
        help="publish only if no more documents than this were empty or too large (default: 0.01)",
    )
    part = parser.add_mutually_exclusive_group()
    part.add_argument(
        "--shard-of", metavar="I/N", help="do only share I (from 0) of N of the work, and publish nothing"
    )
    part.add_argument(
        "--finish", action="store_true", help="publish what the shares did; refuse if one is missing"
    )
    parser.add_argument(
        "--progress",
        choices=["auto", "live", "plain", "none"],
        default="auto",
        help="on stderr: live lines, plain key=value lines for logs, or none (default: auto, live on a terminal)",
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON on stdout")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.outcome import tell_outcome, tell_share
    from headrace.cli.progress import reporter
    from headrace.convert.adopt import AdoptConfig, adopt, adopt_share
    from headrace.convert.vocabulary import of_size, of_tokenizer
    from headrace.tokenize.config import Execution, Share

    if args.tokenizer is not None:
        vocabulary = of_tokenizer(args.tokenizer, bos=args.bos, eos=args.eos)
    else:
        vocabulary = of_size(args.vocab_size, bos=args.bos, eos=args.eos)
    config = AdoptConfig(
        column=args.column,
        dtype=args.dtype,
        split_after=args.split_after,
        split_before=args.split_before,
        document_tokens=args.document_tokens,
        shard_bytes=args.shard_bytes,
        compression="zstd:3" if args.compression == "zstd" else args.compression,
    )
    show = reporter(args.progress)
    execution = Execution(
        executor=args.executor,
        address=args.address,
        workers=args.workers,
        max_rejects=args.max_rejects,
        on_progress=show,
        on_stop=lambda num_open: show.say(stopping(num_open)),
    )
    try:
        with sigterm_raises():
            job = (args.sources, vocabulary, args.out, config, execution)
            if args.shard_of is not None:
                tell_share(
                    adopt_share(*job, share=Share.parse(args.shard_of)), args.shard_of, as_json=args.json
                )
                return 0
            outcome = adopt(*job, by_shares=args.finish)
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
    tell_outcome(outcome, args.out, as_json=args.json)
    show.summary()
    return 0
