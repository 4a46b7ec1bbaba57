"""How much of a tokenizer's own rate is left of the whole pipeline?

    python -m benchmarks.tokenize --tokenizer cl100k_base.tiktoken [--corpus DIR] [--workers 2] [--repeats 3]

Rates over the same zstd Parquet, each in new processes, interleaved, medians:

    fast        the fast backend over texts in memory, libraries loaded: a process of one thread a worker, which is its best
    library     the same in one process with the library's own threads
    pipeline    from Parquet to stored, hashed shards with lineage, libraries loaded: a process a worker
    definition  `encode_batch_fast` over texts in memory, with as many threads
    slow        the pipeline with that in place of the fast backend
    command     `headrace tokenize`, from the start of the interpreter to its end

MB/s is by the clock and means something on an idle machine; MB per processor second also on a busy one.

The ids of both backends are compared on the whole corpus first, which takes the definition minutes where that is large, as do
`definition` and `slow`: then give `--skip-check --skip definition slow`, and a corpus of 100 MB for those. Without --corpus the text is that of the interpreter's
own standard library, which is small: rates of `command` then tell more of starting than of tokenizing
(`python -m benchmarks.corpus` writes a larger one).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.corpus import corpus_bytes, write_corpus

ROOT = Path(__file__).parents[1]
ROLES = ("fast", "library", "pipeline", "definition", "slow")


def child(role: str, corpus: Path, tokenizer: Path, out: Path, index: int, workers: int) -> None:
    """One process of a measurement: prepares, says so, waits for a line, works, and says how much text it was."""
    from headrace.tokenize.backends import Fast, Reference, fast_backend
    from headrace.tokenize.definition import to_definition
    from headrace.tokenize.tokenizers import load

    paths = sorted(corpus.glob("*.parquet"))[index::workers]
    data = to_definition(tokenizer.read_bytes(), tokenizer.name)
    work: Callable[[], int]
    if role in ("pipeline", "slow"):
        work = _pipeline(paths, data, out / str(index), fast=role == "pipeline")
    else:
        reference = Reference(load(data, tokenizer.name))
        backend: Any = reference
        if role == "fast":
            backend = fast_backend(data, reference)
            assert isinstance(backend, Fast), backend
        if role == "library":
            import fastokens

            backend = Fast(fastokens.Tokenizer.from_json_str(data.decode()))
        texts = [text for path in paths for text in pq.read_table(path)["text"].to_pylist()]
        groups = _groups(texts)
        encode = backend.encode if role in ("fast", "library") else _encode_batch_fast(reference.tokenizer)

        def work() -> int:
            for group in groups:
                encode(group)
            return sum(len(text.encode()) for text in texts)

    print("ready", flush=True)
    sys.stdin.readline()
    before = time.process_time()
    num_bytes = work()
    print(num_bytes, time.process_time() - before, flush=True)


def _encode_batch_fast(tokenizer: Any) -> Callable[[list[str]], Any]:
    return lambda texts: tokenizer.encode_batch_fast(texts, add_special_tokens=False)


def _groups(texts: list[str], size: int = 1 << 20) -> list[list[str]]:
    groups: list[list[str]] = [[]]
    held = 0
    for text in texts:
        if held > size:
            groups.append([])
            held = 0
        groups[-1].append(text)
        held += len(text)
    return groups


def _pipeline(paths: list[Path], data: bytes, out: Path, *, fast: bool) -> Callable[[], int]:
    import headrace.kernels.pack  # noqa: F401
    from headrace.dataeng.mds import token_dtype
    from headrace.dataeng.sources.discover import discover
    from headrace.dataeng.storage import Store
    from headrace.tokenize.config import TokenizeConfig
    from headrace.tokenize.tokenizers import identify
    from headrace.tokenize.tools import Context, Tools
    from headrace.tokenize.units import Unit, plan_units, unit_bytes
    from headrace.tokenize.worker import TokenizeUnit

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    config = TokenizeConfig(id_column="id")
    found = discover([str(path) for path in paths], id_column="id")
    identity = identify(data, "benchmark")
    tools = Tools(
        Context(
            store=Store(out),
            tokenizer=data,
            identity=identity,
            columns=found.columns,
            config=config,
            dtype=token_dtype(identity.vocab_size),
            quarantine_damage=False,
            fast_tokenizer=fast,
        )
    )
    assert not tools.take_notes()
    tasks = [
        TokenizeUnit(unit=unit, sources={file: found.sources[file] for file in unit.files})
        for unit in plan_units(found.sources, unit_bytes(found.sources, config.shard_bytes))
    ]
    first = tasks[0].unit
    warm = Unit(index=len(tasks), slices=first.slices[:1])  # kernels are compiled, libraries imported
    TokenizeUnit(unit=warm, sources={file: found.sources[file] for file in warm.files}).run(
        tools, lambda _: None
    )
    return lambda: sum(task.run(tools, lambda _: None).total("text_bytes") for task in tasks)


def rate(role: str, corpus: Path, tokenizer: Path, out: Path, workers: int) -> tuple[float, float]:
    """(MB/s, MB per processor second) of `workers` processes that begin together, until the last is done."""
    count = 1 if role in ("definition", "library") else workers
    command = [
        sys.executable, "-m", "benchmarks.tokenize", "--child", role, "--corpus", str(corpus), "--tokenizer", str(tokenizer),
        "--out", str(out), "--workers", str(count),
    ]  # fmt: skip
    processes = [
        subprocess.Popen(
            [*command, "--index", str(index)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                **os.environ,
                "RAYON_NUM_THREADS": str(workers),
                "TOKENIZERS_PARALLELISM": "true" if count == 1 else "false",
            },
        )
        for index in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    begun = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.stdout.readline().split() for process in processes if process.stdout is not None]
    seconds = time.perf_counter() - begun
    for process in processes:
        process.communicate()
    megabytes = sum(int(num_bytes) for num_bytes, _ in told) / 1e6
    return megabytes / seconds, megabytes / sum(float(spent) for _, spent in told)


def command_rate(corpus: Path, tokenizer: Path, out: Path) -> tuple[float, float]:
    """(MB/s, MB per processor second) of the command."""
    shutil.rmtree(out, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run(
        [
            sys.executable, "-m", "headrace", "tokenize", "--out", str(out), "--tokenizer", str(tokenizer), "--id-column", "id",
            "--progress", "none", str(corpus),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    megabytes = corpus_bytes(corpus) / 1e6
    return megabytes / seconds, megabytes / spent


def take_cores(count: int) -> None:
    """Holds this process, and all that it will start, to so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def check(corpus: Path, tokenizer: Path) -> None:
    """Both backends give the same ids for all of the corpus."""
    from headrace.tokenize.backends import Fast, Reference, differences, fast_backend
    from headrace.tokenize.definition import to_definition
    from headrace.tokenize.tokenizers import load

    data = to_definition(tokenizer.read_bytes(), tokenizer.name)
    reference = Reference(load(data, tokenizer.name))
    fast = fast_backend(data, reference)
    if not isinstance(fast, Fast):
        raise SystemExit(f"nothing to measure: {fast.reason}")
    count = 0
    for path in sorted(corpus.glob("*.parquet")):
        for group in _groups(pq.read_table(path)["text"].to_pylist()):
            assert not differences(fast.encode(group), reference.encode(group)), path
            count += len(group)
    print(f"ids of {count:,} documents are equal")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, help="a directory of Parquet with columns text and id")
    parser.add_argument("--megabytes", type=int, default=25, help="without --corpus")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip-check", action="store_true")
    parser.add_argument("--skip", nargs="*", default=[], choices=[*ROLES, "command"])
    for name in ("--child", "--out", "--index"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.corpus, args.tokenizer, Path(args.out), int(args.index), args.workers)
        return
    take_cores(args.workers)
    with tempfile.TemporaryDirectory() as scratch:
        out, corpus = Path(scratch) / "out", args.corpus
        if corpus is None:
            corpus = Path(scratch) / "corpus"
            corpus.mkdir()
            write_corpus(corpus, args.megabytes, 2 * args.workers)
        corpus, tokenizer = corpus.resolve(), args.tokenizer.resolve()
        if not args.skip_check:
            check(corpus, tokenizer)
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(args.repeats):
            for role in ROLES:
                if role not in args.skip:
                    found.setdefault(role, []).append(rate(role, corpus, tokenizer, out, args.workers))
            if "command" not in args.skip:
                found.setdefault("command", []).append(command_rate(corpus, tokenizer, out))
        print(
            f"{corpus_bytes(corpus) / 1e6:.0f} MB of text, {args.workers} workers, medians of {args.repeats}"
        )
        print(f"{'':<12}{'MB/s':>8}{'(range)':>18}{'MB/processor s':>16}")
        clock, processor = {}, {}
        for name, rates in found.items():
            clock[name] = statistics.median(by_clock for by_clock, _ in rates)
            processor[name] = statistics.median(by_processor for _, by_processor in rates)
            spread = f"({min(rates)[0]:.1f} to {max(rates)[0]:.1f})"
            print(f"{name:<12}{clock[name]:8.1f}{spread:>18}{processor[name]:16.1f}")
        for one, other in (
            ("pipeline", "fast"),
            ("pipeline", "library"),
            ("slow", "definition"),
            ("pipeline", "slow"),
        ):
            if one in found and other in found:
                ratios = clock[one] / clock[other], processor[one] / processor[other]
                print(f"{one} / {other}: {ratios[0]:.2f} by the clock, {ratios[1]:.2f} by processor time")


if __name__ == "__main__":
    main()
