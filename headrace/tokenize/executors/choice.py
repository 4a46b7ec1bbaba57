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
    execution: Execution, context: Context, num_tasks: int, text_bytes: int | None = None
) -> Executor:
    """An executor with no more workers than there are tasks, and at least one, for a job that the journal knows.

    text_bytes: of all tasks, as estimated: a little text is done by few processes with many threads, if nobody has said
    how many.

    Raises:
        MissingExtra, UsageError, MismatchError: the executor cannot be had, or not for this job.
    """
    if execution.executor == "ray":
        from headrace.tokenize.executors.ray import RayExecutor

        return RayExecutor(context, num_tasks, workers=execution.workers, address=execution.address)
    from headrace.tokenize.executors.local import LocalExecutor

    worth = num_cores() if text_bytes is None else -(-text_bytes // _WORTH_A_PROCESS)
    workers = max(1, min(execution.workers or min(num_cores(), worth), num_tasks))
    return LocalExecutor(workers, replace(context, threads=max(1, num_cores() // workers)))
