"""The whole way from zstd Parquet to tokens on disk: headrace, datatrove and litdata `optimize`, on the same text.

    python -m benchmarks.tokenize_peers --env DIR --tokenizer FILE --corpus DIR [--workers 2] [--repeats 3]

Peers are installed into the virtual environment DIR, which is made if it is not there (1.5 GB; a few minutes). Each
is told what its documentation says: datatrove a local executor of a task a file over its Parquet reader and document
tokenizer, without shuffling; litdata a function that encodes the documents of a batch of rows, and chunks of 64 MB. Each
run is a new process, timed from start to end, one after another in turn. The corpus should be of some ten MB and in as
many files as there are workers, or more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.tokenize import ROOT, corpus_bytes

PACKAGES = (
    "torch==2.13.0",
    "datatrove==0.10.1",
    "tokenizers>=0.23,<0.24",
    "pyarrow",
    "orjson",
    "boto3",
    "requests",
)
WITHOUT_DEPENDENCIES = ("litdata==0.2.76", "lightning-utilities", "obstore", "tifffile")

DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer

if __name__ == "__main__":
    corpus, tokenizer, out, eos, workers, files = sys.argv[1:]
    LocalPipelineExecutor(
        pipeline=[
            ParquetReader(corpus),
            DocumentTokenizer(f"{out}/tokens", tokenizer, eos_token=eos, shuffle_documents=False),
        ],
        tasks=int(files),
        workers=int(workers),
        logging_dir=f"{out}/logs",
    ).run()
"""

LITDATA = """
import sys
import torch
import pyarrow.parquet as pq
from litdata import TokensLoader, optimize

_tokenizer = None

def encode(rows):
    global _tokenizer
    if _tokenizer is None:
        from tokenizers import Tokenizer
        _tokenizer = Tokenizer.from_file(sys.argv[2])
    path, group = rows
    texts = pq.ParquetFile(path).read_row_group(group, columns=["text"])["text"].to_pylist()
    end = _tokenizer.token_to_id(sys.argv[4])
    for encoding in _tokenizer.encode_batch_fast(texts, add_special_tokens=False):
        yield torch.tensor(encoding.ids + [end], dtype=torch.int32)

if __name__ == "__main__":
    from pathlib import Path
    corpus, tokenizer, out, eos, workers, files = sys.argv[1:]
    paths = sorted(map(str, Path(corpus).glob("*.parquet")))
    inputs = [(path, group) for path in paths for group in range(pq.ParquetFile(path).num_row_groups)]
    optimize(
        fn=encode, inputs=inputs, output_dir=out, num_workers=int(workers), chunk_bytes="64MB",
        item_loader=TokensLoader(), start_method="spawn", reorder_files=False,
    )
"""


def install(environment: Path) -> Path:
    """The interpreter of the peers' environment."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        subprocess.run([*pip, "--no-deps", *WITHOUT_DEPENDENCIES], check=True)
    return python


def seconds(command: list[str], out: Path) -> float:
    shutil.rmtree(out, ignore_errors=True)
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    spent = time.perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:200]}\n{done.stderr[-2000:]}")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert size > 0, command
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument(
        "--corpus", type=Path, required=True, help="a directory of Parquet with columns text and id"
    )
    parser.add_argument("--eos", default="<|endoftext|>")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    python = str(install(args.env))
    corpus, tokenizer = str(args.corpus.resolve()), str(args.tokenizer.resolve())
    files = str(len(list(args.corpus.glob("*.parquet"))))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        tail = [corpus, tokenizer, str(out), args.eos, str(args.workers), files]
        commands: dict[str, list[str]] = {}
        for name, source in (("datatrove", DATATROVE), ("litdata", LITDATA)):
            script = Path(scratch) / f"{name}_run.py"
            script.write_text(source)
            commands[name] = [python, str(script), *tail]
        ours = [
            sys.executable, "-m", "headrace", "tokenize", "--out", str(out), "--tokenizer", tokenizer, "--eos", args.eos,
            "--workers", str(args.workers), "--progress", "none", "--shard-bytes", "8M",
        ]  # fmt: skip
        commands["headrace"] = [*ours, corpus]
        commands["headrace, reference"] = [*ours, "--tokenizer-backend", "reference", corpus]
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(args.repeats):
            for name, command in commands.items():
                found[name].append(corpus_bytes(args.corpus) / 1e6 / seconds(command, out))
    print(
        f"{corpus_bytes(args.corpus) / 1e6:.0f} MB of text, {args.workers} workers, medians of {args.repeats}, MB/s"
    )
    for name, rates in found.items():
        print(f"  {name:<20} {statistics.median(rates):7.1f}   ({min(rates):.1f} to {max(rates):.1f})")


if __name__ == "__main__":
    main()
