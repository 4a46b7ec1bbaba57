"""`headrace ...` that is killed at its n-th change of a store: run as `python -m tests.tokenize.dying N ARGUMENTS`.

The change itself is done, or for a negative N is not. Changes of workers in other processes do not count.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from headrace.cli.main import main
from headrace.dataeng.storage import Store

CHANGES = ("write", "create", "replace", "remove")
KILLED = 99


def die_at(last: int) -> None:
    """Ends the process, without any clean-up, at the |last|-th change of any store."""
    lock = threading.Lock()
    seen = 0

    def counted(real: Any) -> Any:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            with lock:
                seen += 1
                now = seen
            if now == -last:
                os._exit(KILLED)
            result = real(*args, **kwargs)
            if now == last:
                os._exit(KILLED)
            return result

        return change

    for name in CHANGES:
        setattr(Store, name, counted(getattr(Store, name)))


if __name__ == "__main__":
    die_at(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
