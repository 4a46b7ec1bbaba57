"""From what a job was told to the executor that does its tasks."""

from __future__ import annotations

from dataclasses import replace

from headrace.dataeng.cores import num_cores
from headrace.tokenize.config import Execution
from headrace.tokenize.executors.base import Executor
from headrace.tokenize.tools import Context


def open_executor(execution: Execution, context: Context, num_tasks: int) -> Executor:
    """An executor with no more workers than there are tasks, and at least one, for a job that the journal knows.

    Raises:
        MissingExtra, UsageError, MismatchError: the executor cannot be had, or not for this job.
    """
    if execution.executor == "ray":
        from headrace.tokenize.executors.ray import RayExecutor

        return RayExecutor(context, num_tasks, workers=execution.workers, address=execution.address)
    from headrace.tokenize.executors.local import LocalExecutor

    workers = max(1, min(execution.workers or num_cores(), num_tasks))
    return LocalExecutor(workers, replace(context, threads=max(1, num_cores() // workers)))
