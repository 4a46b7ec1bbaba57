"""`headrace train`: a run from a YAML file, alone or under torchrun."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from headrace.errors import HeadraceError, MissingExtra

HELP = "train a mixture-of-experts model on a stream of tokens"

EXAMPLE = """\
examples:
  torchrun --nproc-per-node 2 -m headrace train run.yaml
  torchrun --nproc-per-node 2 -m headrace train run.yaml --set optimizer.lr=1e-3 --set train.steps=500
  headrace train run.yaml --dry-run          check everything, one process, no step

The same command continues a run that was stopped or killed. exit codes: 0 done, or saved after SIGTERM; 1 damage or
non-finite gradients; 2 the configuration or the run directory does not fit; 3 a rank was left alone."""

_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_PACKAGES = ("torch", "pydantic", "yaml")  # what the extra "train" brings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("config", metavar="run.yaml", help="the run's configuration (docs/train.md)")
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="a.b=value",
        action="append",
        default=[],
        help="override one value; may be given again",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything, print the resolved configuration and sizes, and end",
    )


def run(args: argparse.Namespace) -> int:
    try:
        if _ERROR_FILE not in os.environ:
            return _run(args)
        from torch.distributed.elastic.multiprocessing.errors import record

        return record(_told)(args) or 0  # a rank that fails tells torchrun why, for its report
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        raise MissingExtra(error.name, "train", "headrace train") from None


def _told(args: argparse.Namespace) -> int:
    """`_run`, whose deliberate errors reach torchrun's report as their message: a stack says nothing more to anyone."""
    try:
        return _run(args)
    except HeadraceError as error:
        report = {"message": f"headrace: {error}", "extraInfo": {"timestamp": str(int(time.time()))}}
        Path(os.environ[_ERROR_FILE]).write_text(json.dumps({"message": report}), encoding="utf-8")
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _run(args: argparse.Namespace) -> int:
    from headrace.train.config import load_config

    config = load_config(args.config, args.overrides)
    if args.dry_run:
        from headrace.train.dry_run import describe

        print(describe(config), end="")
        return 0
    from headrace.train.loop import train

    train(config)
    return 0
