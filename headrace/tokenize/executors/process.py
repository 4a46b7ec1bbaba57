"""The process behind `local`: takes tasks over a pipe until it is told that there are no more.

It ends at once when its parent does: two runs never write to one dataset.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

from headrace.tokenize.executors.base import Done, Failed
from headrace.tokenize.tools import Context, Tools


def main(connection: Connection, context: Context) -> None:
    """Task or None (the end) comes in; Counts, and for each Task one Done or Failed, go out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the executor had it from the start
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a hook prints is for people; stdout is the outcome's, JSON perhaps
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # our own threads encode, as many as the job was given
    try:
        tools = Tools(context)
        while (task := connection.recv()) is not None:
            result = task.run(tools, connection.send)
            connection.send(Done(result, tools.take_notes()))
    except EOFError:
        return
    except Exception as error:  # noqa: BLE001 every end of a worker is told to the parent
        connection.send(Failed.of(error))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
