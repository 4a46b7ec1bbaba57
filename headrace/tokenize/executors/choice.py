"""From what a job was told to the executor that does its tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.dataeng.cores import num_cores
from headrace.tokenize.config import Execution
from headrace.tokenize.executors.base import Executor
from headrace.tokenize.tools import Context

# Below it a second process, which loads both tokenizers again, ends later than a second thread in the first.
_WORTH_A_PROCESS: Final = 128 << 20


def open_executor(
    execution: Execution, context: Context, num_tasks: int, encoded_bytes: int | None = None
) -> Executor:
    """An executor with no more workers than there are tasks, and at least one, for a job that the journal knows.

    encoded_bytes: see `local_workers`.

    Raises:
        MissingExtra, UsageError, MismatchError: the executor cannot be had, or not for this job.
    """
    if execution.executor == "ray":
        from headrace.tokenize.executors.ray import RayExecutor

        return RayExecutor(context, num_tasks, workers=execution.workers, address=execution.address)
    from headrace.tokenize.executors.local import LocalExecutor

    workers = local_workers(execution.workers, num_tasks, encoded_bytes, num_cores())
    return LocalExecutor(workers, replace(context, threads=max(1, num_cores() // workers)))


def local_workers(asked: int | None, num_tasks: int, encoded_bytes: int | None, cores: int) -> int:
    """How many processes do the tasks: as many as were asked for, else one a core.

    encoded_bytes: of text, where nearly all there is to do is to encode it, which threads of one process share well: then
    no more processes than it is worth to start. None where other things are to be done, as filters or a scan.
    """
    worth = cores if encoded_bytes is None else min(cores, -(-encoded_bytes // _WORTH_A_PROCESS))
    return max(1, min(asked or worth, num_tasks))
