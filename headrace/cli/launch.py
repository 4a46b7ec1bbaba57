"""`headrace launch`: write the job file that runs a verb on a cluster. It starts nothing."""

from __future__ import annotations

import argparse
import shlex

from headrace.errors import UsageError

HELP = "write a SLURM or Kubernetes job file for a tokenization in parts"

EXAMPLE = """\
What comes after -- is a `headrace tokenize` command without --workers, --shard-of and --finish. --out must be seen by
every machine: a shared file system or an object store. A part that fails or is preempted is run again by the
scheduler and does only what is left of it.

examples:
  headrace launch tokenize slurm --parts 64 --cpus 16 -- --out /shared/corpus --tokenizer tok.json '/raw/*.parquet' > job.sh
  sbatch job.sh
  headrace launch tokenize k8s --parts 64 --cpus 16 --image registry/headrace:0.1 -- \\
      --out s3://bucket/corpus --tokenizer s3://bucket/tok.json s3://bucket/raw/ | kubectl apply -f -"""

_SLURM = """\
#!/bin/bash
# Tokenizes in {parts} parts and then publishes, once all of them have succeeded. Submit with: sbatch FILE
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --cpus-per-task={cpus}
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail

job=({command})

if [ "${{1:-}}" = finish ]; then
  exec "${{job[@]}}" --finish --workers "$SLURM_CPUS_PER_TASK"
fi
if [ "$SLURM_ARRAY_TASK_ID" = 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
  sbatch --job-name={name}-finish --dependency=afterok:"$SLURM_ARRAY_JOB_ID" --array=0 "$0" finish
fi
# In the background, so that this shell hears SIGTERM and passes it on: open units end, finished ones stay.
"${{job[@]}}" --shard-of "$SLURM_ARRAY_TASK_ID/{parts}" --workers "$SLURM_CPUS_PER_TASK" --progress plain &
trap 'kill -TERM $!' TERM
wait $!
"""

_K8S_JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {parts}
  parallelism: {parts}
  backoffLimitPerIndex: 6
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tokenize
          image: {image}
          command: ["/bin/sh", "-c"]
          args:
            - {script}
          resources:
            requests: {{cpu: "{cpus}"}}
            limits: {{cpu: "{cpus}"}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("verb", choices=["tokenize"], help="what the job runs")
    parser.add_argument("scheduler", choices=["slurm", "k8s"], help="what runs the job")
    parser.add_argument("--parts", type=int, required=True, metavar="N", help="jobs to split the work into")
    parser.add_argument(
        "--cpus", type=int, default=8, metavar="N", help="cores, and workers, of each (default 8)"
    )
    parser.add_argument("--name", default="headrace-tokenize", help="of the job (default headrace-tokenize)")
    parser.add_argument("--image", metavar="IMAGE", help="container image with headrace (k8s)")
    parser.add_argument("command", nargs="+", metavar="-- ARGUMENT", help="arguments of `headrace tokenize`")


def run(args: argparse.Namespace) -> int:
    command = _checked(args)
    if args.scheduler == "slurm":
        print(
            _SLURM.format(
                parts=args.parts,
                last=args.parts - 1,
                cpus=args.cpus,
                name=args.name,
                command=shlex.join(["headrace", "tokenize", *command]),
            ),
            end="",
        )
    else:
        print(_kubernetes(args, command), end="")
    return 0


def _checked(args: argparse.Namespace) -> list[str]:
    """The arguments of `headrace tokenize`, parsed as they will be, so that a mistake shows here and not on a node."""
    import re

    from headrace.cli import tokenize

    if args.parts < 1 or args.cpus < 1:
        raise UsageError(f"--parts {args.parts} --cpus {args.cpus}: expected 1 or more of each")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?", args.name):
        raise UsageError(
            f"--name {args.name!r}: expected lower-case letters, digits and dashes, at most 52 characters"
        )
    if (args.image is not None) != (args.scheduler == "k8s"):
        raise UsageError(
            "--image goes with k8s, which needs it: a container image that has headrace installed"
        )
    parser = argparse.ArgumentParser(prog="headrace tokenize", allow_abbrev=False)
    tokenize.add_arguments(parser)
    command: list[str] = args.command
    parsed = parser.parse_args(command)
    if parsed.shard_of is not None or parsed.finish or parsed.workers is not None:
        raise UsageError(
            "--shard-of, --finish and --workers are set by the job file; leave them out after --"
        )
    return command


def _kubernetes(args: argparse.Namespace, command: list[str]) -> str:
    """The Indexed Job of the parts, and a Job that publishes. YAML is a superset of JSON: strings are quoted as such."""
    import json

    base = shlex.join(["headrace", "tokenize", *command])
    # A Job cannot wait for another: the publishing one asks until all parts are done (75 is "too early").
    jobs = {
        args.name: (
            args.parts,
            f'exec {base} --workers {args.cpus} --shard-of "$JOB_COMPLETION_INDEX/{args.parts}"',
        ),
        f"{args.name}-finish": (
            1,
            f"until {base} --workers {args.cpus} --finish; do [ $? = 75 ] || exit 1; sleep 60; done",
        ),
    }
    return "---\n".join(
        _K8S_JOB.format(
            name=name, parts=parts, image=json.dumps(args.image), script=json.dumps(script), cpus=args.cpus
        )
        for name, (parts, script) in jobs.items()
    )
