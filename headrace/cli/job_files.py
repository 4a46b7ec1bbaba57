"""The job files that `headrace launch` writes, for SLURM and for Kubernetes.

Both run each share of a tokenization as a job of its own and publish when all have succeeded. Which ends are tried again:
0 is done; 1 and 2 would end the same way again; 3 (a worker died), 75 (too early) and the loss of a node would not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

RETRIES: Final = 6  # of a share that failed but need not fail again
RESTARTS: Final = 50  # of a share in SLURM, ends of its time limit included


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFile:
    """What both need. command: `headrace tokenize` and its arguments. memory: of a job, in MiB, or what the cluster gives."""

    name: str
    shares: int
    cpus: int
    memory: int | None
    command: Sequence[str]


_SLURM = """\
#!/bin/bash
# Tokenizes in {shares} shares, and publishes once all of them have succeeded. Submit both with: bash FILE
# Lines that begin with #SBATCH may be added (partition, account, time). An array of more than MaxArraySize jobs
# (scontrol show config) is refused by sbatch. --array=0-{last}%50 would let 50 of them run at a time.
#SBATCH --job-name={name}
#SBATCH --array=0-{last}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cpus}
{memory}#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -uo pipefail

job=({command})

if [ -z "${{SLURM_ARRAY_TASK_ID:-}}" ]; then  # not in a job yet: submit
  array=$(sbatch --parsable "$0") || exit
  exec sbatch --job-name={name}-finish --dependency=afterok:"${{array%%;*}}" --kill-on-invalid-dep=yes --array=0 "$0" finish
fi
if [ "${{1:-}}" = finish ]; then
  what=(--finish)
else
  what=(--shard-of "$SLURM_ARRAY_TASK_ID/{shares}")
fi

# In the background, so that this shell hears signals. USR1 comes before the time limit: stop, and go on in a new job.
"${{job[@]}}" "${{what[@]}}" --workers "$SLURM_CPUS_PER_TASK" --progress plain &
child=$!
again=no
trap 'again=yes; kill -TERM "$child"' USR1
trap 'kill -TERM "$child"' TERM
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do  # a signal ended the waiting, not the child
  wait "$child"
  code=$?
done
limit={restarts}
case $code in
  0 | 1 | 2) again=no ;;
  3 | 75) again=yes limit={retries} ;;  # a worker died; too early
esac
if [ $again = yes ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt $limit ]; then
  # Not by SLURM_JOB_ID: the last job of an array has the number of the array, and all of it would be begun again.
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" && exit
fi
exit $code
"""


def slurm(job: JobFile) -> str:
    """A script for bash, which submits itself twice: as an array of shares, and as what waits for it and publishes."""
    return _SLURM.format(
        shares=job.shares,
        last=job.shares - 1,
        name=job.name,
        cpus=job.cpus,
        memory="" if job.memory is None else f"#SBATCH --mem={job.memory}M\n",
        command=shlex.join(job.command),
        restarts=RESTARTS,
        retries=RETRIES,
    )


_KUBERNETES = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
{kind}
  podFailurePolicy:
    rules:
      - action: Ignore  # a node was drained or preempted: not a failure of the job
        onPodConditions:
          - type: DisruptionTarget
            status: "True"
      - action: {give_up}  # damage, rejects over the budget, bad usage or input: it would end the same way again
        onExitCodes:
          containerName: tokenize
          operator: In
          values: [1, 2]
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tokenize
          image: {image}
          command: {command}
{secret}          resources:
            requests: {resources}
            limits: {resources}
"""

_SHARES = """\
  completionMode: Indexed
  completions: {shares}
  parallelism: {shares}
  backoffLimitPerIndex: {retries}"""

# A Job cannot wait for another. This one finds that units are missing, ends with 75 and is begun again, in the end every
# six minutes, so that it takes no processors while it waits; after a thousand times, four days, it gives up.
_FINISH = """\
  backoffLimit: 1000"""

_SECRET = """\
          envFrom:
            - secretRef:
                name: {secret}
"""


def kubernetes(job: JobFile, *, image: str, secret: str | None) -> str:
    """Two Jobs, of which one has an index a share and the other publishes. YAML takes JSON: strings are written as that.

    secret: the Secret whose entries become the environment.
    """
    resources = {"cpu": str(job.cpus), **({} if job.memory is None else {"memory": f"{job.memory}Mi"})}
    # No shell: Kubernetes puts the variable in. A dollar that is to stay is doubled.
    words = [word.replace("$", "$$") for word in job.command] + [
        "--workers",
        str(job.cpus),
        "--progress",
        "plain",
    ]
    shares = _SHARES.format(shares=job.shares, retries=RETRIES)
    return "---\n".join(
        _KUBERNETES.format(
            name=name,
            kind=kind,
            give_up=give_up,
            image=json.dumps(image),
            command=json.dumps([*words, *what], ensure_ascii=False),
            resources=json.dumps(resources),
            secret="" if secret is None else _SECRET.format(secret=json.dumps(secret)),
        )
        for name, kind, give_up, what in (
            (job.name, shares, "FailIndex", ["--shard-of", f"$(JOB_COMPLETION_INDEX)/{job.shares}"]),
            (f"{job.name}-finish", _FINISH, "FailJob", ["--finish"]),
        )
    )
