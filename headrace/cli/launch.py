"""`headrace launch`: write the job file that runs a verb on a cluster. It starts nothing."""

from __future__ import annotations

import argparse
import sys

from headrace.errors import UsageError

HELP = "write a SLURM or Kubernetes job file for a tokenization in shares"

EXAMPLE = """\
What comes after -- is a `headrace tokenize` command without --workers, --shard-of and --finish. --out and the sources
must be seen by every machine: a shared file system or an object store. A share that loses its node is run again by the
scheduler and does only what is left of it; one that ends with 1 or 2 is not, for it would end the same way.
docs/clusters.md has more.

examples:
  headrace launch tokenize slurm --shares 64 --cpus 16 -- --out /shared/corpus --tokenizer tok.json '/raw/*.parquet' > job.sh
  bash job.sh
  headrace launch tokenize k8s --shares 64 --cpus 16 --image registry/headrace:0.1 --secret s3-keys -- \\
      --out s3://bucket/corpus --tokenizer s3://bucket/tok.json s3://bucket/raw/ | kubectl apply -f -"""

_MAX_SHARES = 100_000  # the indices of a Kubernetes Job with limits for each
_NAME = r"[a-z0-9]([a-z0-9-]{0,48}[a-z0-9])?"  # with -finish, or an index, a DNS label

_UNPRINTABLE = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff\\ufeff\\ufffe\\uffff]"  # what YAML does not take as it is


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("verb", choices=["tokenize"], help="what the job runs")
    parser.add_argument("scheduler", choices=["slurm", "k8s"], help="what runs the job")
    parser.add_argument("--shares", type=int, required=True, metavar="N", help="jobs to split the work into")
    parser.add_argument(
        "--cpus", type=int, default=8, metavar="N", help="cores, and workers, of each (default 8)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="memory of each, such as 16G (default: what the cluster gives)"
    )
    parser.add_argument("--name", help="of the job (default headrace-tokenize; with --scan headrace-scan)")
    parser.add_argument("--image", metavar="IMAGE", help="container image with headrace (k8s)")
    parser.add_argument(
        "--secret",
        metavar="NAME",
        help="Secret with the variables that open the store, such as AWS keys (k8s)",
    )
    parser.add_argument("command", nargs="+", metavar="-- ARGUMENT", help="arguments of `headrace tokenize`")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.job_files import JobFile, kubernetes, slurm

    parsed = _check(args)
    if parsed.dedup != "none" and not parsed.scan:
        print(
            "headrace: duplicates have to be found first: before this job, run that of the same command with --scan added",
            file=sys.stderr,
        )
    job = JobFile(
        name=args.name or ("headrace-scan" if parsed.scan else "headrace-tokenize"),
        shares=args.shares,
        cpus=args.cpus,
        memory=None if args.memory is None else _mebibytes(args.memory),
        command=["headrace", "tokenize", *args.command],
    )
    text = slurm(job) if args.scheduler == "slurm" else kubernetes(job, image=args.image, secret=args.secret)
    print(text, end="")
    return 0


def _check(args: argparse.Namespace) -> argparse.Namespace:
    """Returns the arguments behind --."""
    import re

    if not 1 <= args.shares <= _MAX_SHARES or args.cpus < 1:
        raise UsageError(
            f"--shares {args.shares} --cpus {args.cpus}: expected 1 to {_MAX_SHARES:,} shares and 1 or more cores"
        )
    if args.name is not None and not re.fullmatch(_NAME, args.name):
        raise UsageError(
            f"--name {args.name!r}: expected lower-case letters, digits and dashes, at most 50 characters"
        )
    if (args.image is not None) != (args.scheduler == "k8s"):
        raise UsageError(
            "--image goes with k8s, which needs it: a container image that has headrace installed"
        )
    if args.secret is not None and (
        args.scheduler != "k8s" or not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", args.secret)
    ):
        raise UsageError(
            f"--secret {args.secret!r}: expected, with k8s, the name of a Secret in its namespace"
        )
    return _check_command(args.command)


def _check_command(command: list[str]) -> argparse.Namespace:
    """Parsed as it will be, so that a mistake shows here and not on a node."""
    import re

    from headrace.cli import tokenize
    from headrace.dataeng.storage import redact

    parser = argparse.ArgumentParser(prog="headrace tokenize", allow_abbrev=False)
    tokenize.add_arguments(parser)
    parsed = parser.parse_args(command)
    if parsed.shard_of is not None or parsed.finish or parsed.workers is not None:
        raise UsageError(
            "--shard-of, --finish and --workers are set by the job file; leave them out after --"
        )
    if parsed.executor != "local" or parsed.address is not None:
        raise UsageError(
            "--executor ray spreads a job by itself: run it without `headrace launch`, and without shares"
        )
    if shown := next((redact(word) for word in command if redact(word) != word), None):
        raise UsageError(
            f"{shown}: the URI given has a user, password, query or fragment, which schedulers would keep and show. Give it "
            "without, and the credentials in the environment of the jobs (k8s: --secret)"
        )
    if odd := next((word for word in command if re.search(_UNPRINTABLE, word)), None):
        raise UsageError(
            f"{odd!r}: an argument with control characters, line breaks or bytes that are no UTF-8 cannot stand "
            "in a job file; name it in a file for --sources-from"
        )
    return parsed


def _mebibytes(text: str) -> int:
    import re

    match = re.fullmatch(r"(\d{1,7})\s*([mg])i?b?", text.strip().lower())
    if match is None or not int(match[1]):
        raise UsageError(f"--memory {text!r}: expected MiB or GiB, such as 900M or 16G")
    return int(match[1]) * (1024 if match[2] == "g" else 1)
