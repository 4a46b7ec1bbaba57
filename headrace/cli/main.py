"""`headrace VERB ...`: one file a verb, of which only the one that was asked for is imported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

from headrace.errors import HeadraceError

# In the order in which a dataset meets them. Each is a module here with HELP, add_arguments(parser) and run(args) -> int.
VERBS: Final = {
    "tokenize": "turn files of documents into shards of tokens, with lineage and a manifest",
    "launch": "write a SLURM or Kubernetes job file for a tokenization in shares",
    "adopt": "make a dataset of token files of other tools: MDS, Megatron, datatrove, NumPy",
    "export": "write a dataset as token files of another tool: Megatron",
    "verify": "check every byte, count and name of a dataset against its manifest",
    "merge": "join datasets of one tokenizer into a new one that needs none of them",
    "filter": "take documents out of a dataset by their lineage: a new version, the old one can still be verified",
    "versions": "list the versions of a dataset, erase old ones, give up an unfinished change",
    "inspect": "show what is in a dataset: counts, lengths, sources, rejects, one document decoded",
    "plan": "fix the order of every sample over one or more datasets",
    "train": "train a mixture-of-experts model on a stream of tokens",
    "trace": "name the documents behind a step or a sample, and show their text",
    "audit": "prove from a run's ledger that no sample was missed or repeated, through every restart",
}
INTERRUPTED: Final = 130
OUTPUT_CLOSED: Final = 141  # what a shell reports for a process that SIGPIPE ended

_EPILOG = """\
exit codes: 0 fine; 1 what was checked is not right; 2 bad usage or input; 3 a worker or rank died;
75 too early, the same may work later; 130 interrupted; 141 the reader of the output went away; 143 terminated

example:
  headrace tokenize --out corpus/ --tokenizer tokenizer.json books/*.parquet
  headrace verify corpus/"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = arguments[0] if arguments else ""
    if verb not in VERBS:
        return _no_verb(arguments)
    module = import_module(f"headrace.cli.{verb}")
    parser = argparse.ArgumentParser(
        prog=f"headrace {verb}",
        description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return _run(module, parser.parse_args(arguments[1:]))


def _no_verb(arguments: list[str]) -> int:
    from headrace import __version__

    parser = argparse.ArgumentParser(
        prog="headrace",
        description="The channel that carries tokens to a trainer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headrace {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)
    for name, text in VERBS.items():
        verbs.add_parser(name, help=text)
    parser.parse_args(arguments)  # prints help or the error, and exits
    raise AssertionError(arguments)


def _run(module: ModuleType, args: argparse.Namespace) -> int:
    try:
        code: int = module.run(args)
        sys.stdout.flush()
        return code
    except HeadraceError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, as `| head` does. Python would complain again when it flushes at exit.
        # Not 0: damage may not have been told yet, and a run that can say nothing has not done its steps.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    except (
        OSError
    ) as error:  # no space, no permission, a directory where a file should be: the system says it best
        _tell(error)
        return HeadraceError.exit_code


def _tell(error: Exception) -> None:
    """Names of files are in it, and what a user's code says of a document."""
    from headrace.dataeng.printable import printable

    print(f"headrace: {printable(str(error), lines=True)}", file=sys.stderr)
