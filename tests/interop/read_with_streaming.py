"""Run in a child process: opens a dataset with the real `streaming` package and writes what it read.

    python read_with_streaming.py DIRECTORY OUTPUT.json

A child, because `import streaming` needs the stand-ins on its path, and because a StreamingDataset leaves threads,
shared memory and file locks behind that have no place in a test process.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

import streaming


def main(directory: str, output: str) -> None:
    dataset = streaming.StreamingDataset(
        local=directory, shuffle=False, batch_size=1, validate_hash="sha256", keep_zip=True
    )
    iterated = [sample["tokens"] for sample in dataset]
    indexed = [dataset[i]["tokens"] for i in range(len(dataset))]
    assert all((a == b).all() for a, b in zip(iterated, indexed, strict=True))
    found = {
        "version": importlib.metadata.version("mosaicml-streaming"),
        "file": streaming.__file__,
        "shards": len(dataset.shards),
        "dtypes": sorted({tokens.dtype.name for tokens in indexed}),
        "documents": [tokens.tolist() for tokens in indexed],
    }
    Path(output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
