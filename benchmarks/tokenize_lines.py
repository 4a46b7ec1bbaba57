"""Does a tokenization of very many documents slow down or grow? Documents of one line, tenth by tenth.

    python -m benchmarks.tokenize_lines --tokenizer FILE [--corpus DIR] [--documents 10000000] [--workers 2]

Tokenizes them with the library's own `tokenize` and prints, for each tenth of the documents, how many were done a second by the
clock and a second of the workers' processor time, and at the end the largest sum over all processes of their resident memory (pages
that they share are counted in each). Lines are taken from --corpus (without one, the interpreter's standard library) and come again
where it has too few.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.corpus import write_corpus, write_lines
from benchmarks.processes import Sampler, processor_seconds, tree

_TENTHS = 10


def main() -> None:
    from headrace.tokenize.config import Execution, Progress, TokenizeConfig
    from headrace.tokenize.pipeline import tokenize

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    seen: list[tuple[int, float, float]] = []  # rows, clock, processor seconds of the workers

    def on_progress(progress: Progress) -> None:
        spent = sum(processor_seconds(pid) for pid in tree(os.getpid())[1:])
        seen.append((progress.rows, time.perf_counter(), spent))

    with tempfile.TemporaryDirectory() as scratch:
        corpus = args.corpus
        if corpus is None:
            corpus = Path(scratch) / "corpus"
            write_corpus(corpus, 25, 1)
        lines = Path(scratch) / "lines" / "lines.parquet"
        write_lines(corpus, args.documents, lines)
        sampler = Sampler(os.getpid())
        sampler.start()
        outcome = tokenize(
            [str(lines)],
            args.tokenizer,
            str(Path(scratch) / "out"),
            TokenizeConfig(id_column="id"),
            Execution(workers=args.workers, max_rejects=1.0, on_progress=on_progress),
        )
        sampler.over()
    counts = outcome.manifest.counts
    print(f"{counts.documents:,} documents, {counts.text_bytes / 1e6:,.0f} MB, {args.workers} workers")
    begun = next(entry for entry in seen if entry[0] > 0)  # without the time of starting
    at = begun
    for tenth in range(1, _TENTHS + 1):
        now = next(entry for entry in seen if entry[0] >= min(counts.rows * tenth / _TENTHS, seen[-1][0]))
        rows = now[0] - at[0]
        print(
            f"  tenth {tenth:2}: {rows / (now[1] - at[1]):12,.0f} documents a second, "
            f"{rows / max(now[2] - at[2], 0.01):12,.0f} a processor second"
        )
        at = now
    print(f"largest sum of resident memory: {sampler.largest / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
