"""Run in a child process: writes token datasets with the real `streaming.MDSWriter`, as its users do.

    python write_with_streaming.py JOBS.json

JOBS.json is a list of {"out", "columns", "tokens" (the column), "dtype", "compression", "hashes", "documents"}. Of a
column of bytes the ids are `ndarray.tobytes()`, as LLM Foundry has it; other columns get a value of their kind.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import streaming

_OTHERS = {"int": 7, "str": "a text, é", "pkl": {"never": "unpickled"}, "float32": np.float32(0.5)}


def main(jobs: str) -> None:
    for job in json.loads(Path(jobs).read_text(encoding="utf-8")):
        write(**job)


def write(
    out: str,
    columns: dict[str, str],
    tokens: str,
    dtype: list[str],
    compression: str | None,
    hashes: list[str],
    documents: list[list[int]],
) -> None:
    with streaming.MDSWriter(
        out=out, columns=columns, compression=compression, hashes=hashes, size_limit=4096
    ) as writer:
        for number, document in enumerate(documents):
            ids: Any = np.array(document, dtype[number % len(dtype)])
            sample = {name: _OTHERS.get(encoding) for name, encoding in columns.items()}
            writer.write(sample | {tokens: ids.tobytes() if columns[tokens] == "bytes" else ids})


if __name__ == "__main__":
    main(*sys.argv[1:])
