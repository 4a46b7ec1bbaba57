"""The whole way from text to tokens on disk: headrace and what people use, on the same text, each from start to end.

    python -m benchmarks.tokenize_peers --envs DIR --tokenizer FILE --corpus DIR [--large DIR] [--megatron CHECKOUT]

The peers, each in a virtual environment of its own below DIR, made if it is not there (a few minutes, 3 GB in all) and told
what its documentation says:

    datatrove   a local executor with a task a file: Parquet reader, document tokenizer, no shuffling
    litdata     `optimize` with a function that encodes the documents of a row group; chunks of 64 MB
    dolma       `dolma tokens` over the same documents as gzipped JSON lines (it reads no Parquet)
    megatron    tools/preprocess_data.py over the same documents as JSON lines, out of a checkout of NVIDIA/Megatron-LM

Every run is a new process on --workers cores, timed from its start to its end; the runs take turns. The peers are told the number
of workers; headrace finds the cores by itself. FILE is a tokenizer.json. The corpus should be of some 100 MB, in as many files as
there are workers or more. On --large only headrace runs: it takes the others minutes, and their rates do not grow with the
corpus. MB/s is by the clock and means something on an idle machine; MB per processor second also on a busy one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.corpus import corpus_bytes
from benchmarks.processes import Sampler
from benchmarks.tokenize import take_cores

ROOT = Path(__file__).parents[1]

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


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a peer is told. corpus: Parquet. lines: the same as one JSON lines file; gzipped: as several, gzipped."""

    corpus: Path
    lines: Path
    gzipped: Path
    tokenizer: Path
    out: Path
    eos: str
    workers: int
    scratch: Path

    def script(self, name: str, source: str, python: Path) -> list[str]:
        path = self.scratch / f"{name}_run.py"
        path.write_text(source)
        files = str(len(list(self.corpus.glob("*.parquet"))))
        return [
            str(python), str(path), str(self.corpus), str(self.tokenizer), str(self.out), self.eos, str(self.workers), files,
        ]  # fmt: skip

    @property
    def eos_id(self) -> int:
        from tokenizers import Tokenizer

        found = Tokenizer.from_file(str(self.tokenizer)).token_to_id(self.eos)
        assert found is not None, self.eos
        return int(found)


@dataclass(frozen=True, kw_only=True)
class Peer:
    packages: tuple[str, ...]
    command: Callable[[Run, Path], list[str]]  # the second is the interpreter of its environment
    without_dependencies: tuple[str, ...] = ()

    def install(self, environment: Path, interpreter: str) -> Path | None:
        """The environment's own interpreter; None if the packages cannot be had here."""
        python, done = environment / "bin" / "python", environment / "installed"
        if done.exists():
            return python
        subprocess.run([interpreter, "-m", "venv", "--clear", str(environment)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            subprocess.run([*pip, *self.packages], check=True, stderr=subprocess.DEVNULL)
            if self.without_dependencies:
                subprocess.run(
                    [*pip, "--no-deps", *self.without_dependencies], check=True, stderr=subprocess.DEVNULL
                )
        except subprocess.CalledProcessError:
            return None
        done.touch()
        return python


def _dolma(run: Run, python: Path) -> list[str]:
    # Its version of tokenizers knows only the older spelling of merges.
    value = json.loads(run.tokenizer.read_bytes())
    value["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in value["model"]["merges"]]
    tokenizer = run.scratch / "older.json"
    tokenizer.write_text(json.dumps(value, ensure_ascii=False))
    return [
        str(python.with_name("dolma")), "tokens", "--documents", f"{run.gzipped}/*.jsonl.gz", "--destination", str(run.out),
        "--tokenizer.name_or_path", str(tokenizer), "--tokenizer.eos_token_id", str(run.eos_id),
        "--tokenizer.pad_token_id", str(run.eos_id), "--dtype", "uint32", "--processes", str(run.workers),
    ]  # fmt: skip


def _megatron(checkout: Path) -> Callable[[Run, Path], list[str]]:
    def command(run: Run, python: Path) -> list[str]:
        model = run.scratch / "hf"
        model.mkdir(exist_ok=True)
        shutil.copy(run.tokenizer, model / "tokenizer.json")
        kind = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": run.eos}
        (model / "tokenizer_config.json").write_text(json.dumps(kind))
        run.out.mkdir()
        return [
            str(python), str(checkout / "tools" / "preprocess_data.py"), "--input", str(run.lines), "--output-prefix",
            str(run.out / "tokens"), "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", str(model), "--append-eod",
            "--workers", str(run.workers),
        ]  # fmt: skip

    return command


def peers(megatron: Path | None) -> dict[str, Peer]:
    torch = "torch==2.13.0"  # by pip, which takes the build for the CPU
    found = {
        "datatrove": Peer(
            packages=(
                "datatrove==0.10.1",
                "tokenizers>=0.23,<0.24",
                "pyarrow",
                "orjson",
                "boto3",
                "requests",
            ),
            command=lambda run, python: run.script("datatrove", DATATROVE, python),
        ),
        "litdata": Peer(
            packages=(torch, "tokenizers>=0.23,<0.24", "pyarrow", "boto3", "requests", "numpy", "filelock"),
            without_dependencies=("litdata==0.2.76", "lightning-utilities", "obstore", "tifffile"),
            command=lambda run, python: run.script("litdata", LITDATA, python),
        ),
        # With what its dependencies come to: pip looks for that for a quarter of an hour.
        "dolma": Peer(
            packages=("dolma==1.2.1", "boto3==1.28.17", "s3fs==2023.6.0", "tokenizers==0.19.1"),
            command=_dolma,
        ),
    }
    if megatron is not None:
        packages = (torch, "transformers<5", "numpy", "einops", "packaging", "regex", "triton")
        found["megatron"] = Peer(packages=packages, command=_megatron(megatron.resolve()))
    return found


def _headrace(run: Run, backend: str, corpus: Path) -> list[str]:
    return [
        sys.executable, "-m", "headrace", "tokenize", "--out", str(run.out), "--tokenizer", str(run.tokenizer), "--eos", run.eos,
        "--progress", "none", "--tokenizer-backend", backend, str(corpus),
    ]  # fmt: skip


def measure(command: list[str], run: Run) -> tuple[float, float] | str:
    """Seconds by the clock and of all its processes, or the end of what it said when it failed."""
    said = run.scratch / "said.txt"
    begun = time.perf_counter()
    with said.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        sampler = Sampler(process.pid)
        sampler.start()
        code = process.wait()
    spent = time.perf_counter() - begun
    sampler.over()
    written = sum(path.stat().st_size for path in run.out.rglob("*") if path.is_file())
    if code != 0 or written == 0:
        return said.read_text()[-1500:] or "it wrote nothing"
    return spent, sampler.seconds


def write_json_lines(corpus: Path, lines: Path, gzipped: Path) -> None:
    gzipped.mkdir()
    with lines.open("w") as whole:
        for path in sorted(corpus.glob("*.parquet")):
            table = pq.read_table(path, columns=["text", "id"])
            documents = [json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()]
            whole.writelines(documents)
            with gzip.open(gzipped / f"{path.stem}.jsonl.gz", "wt", compresslevel=1) as file:
                file.writelines(documents)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--envs", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument(
        "--corpus",
        type=Path,
        required=True,
        help="Parquet with columns text and id (benchmarks.corpus writes it)",
    )
    parser.add_argument("--large", type=Path, help="a larger corpus, for headrace alone")
    parser.add_argument("--megatron", type=Path, help="a checkout of NVIDIA/Megatron-LM")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="what their environments are made with; Megatron asks for 3.12",
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="PEER")
    parser.add_argument("--eos", default="<|endoftext|>")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    take_cores(args.workers)
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        run = Run(
            corpus=args.corpus.resolve(),
            lines=scratch / "lines.jsonl",
            gzipped=scratch / "gzipped",
            tokenizer=args.tokenizer.resolve(),
            out=scratch / "out",
            eos=args.eos,
            workers=args.workers,
            scratch=scratch,
        )
        write_json_lines(run.corpus, run.lines, run.gzipped)
        commands: dict[str, Callable[[], list[str]]] = {}
        for name, peer in peers(args.megatron).items():
            if args.only and name not in args.only:
                continue
            python = peer.install(args.envs.resolve() / name, args.python)
            if python is None:
                print(f"{name}: its packages cannot be installed here")
            else:
                commands[name] = lambda peer=peer, python=python: peer.command(run, python)  # type: ignore[misc]
        commands["headrace, reference"] = lambda: _headrace(run, "reference", run.corpus)
        commands["headrace"] = lambda: _headrace(run, "auto", run.corpus)
        if args.large is not None:
            commands["headrace, large"] = lambda: _headrace(run, "auto", args.large.resolve())
        small = corpus_bytes(run.corpus) / 1e6
        megabytes = dict.fromkeys(commands, small)
        if args.large is not None:
            megabytes["headrace, large"] = corpus_bytes(args.large) / 1e6
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(args.repeats):
            for name, command in commands.items():
                shutil.rmtree(run.out, ignore_errors=True)
                took = measure(command(), run)
                if isinstance(took, str):
                    print(f"{name}: failed\n{took}", flush=True)
                else:
                    found[name].append(took)
                    print(f"{name}: {took[0]:.1f} s, {took[1]:.1f} processor s", flush=True)
    print(f"\n{args.workers} cores, medians of {args.repeats}; headrace / it on {small:,.0f} MB")
    print(f"{'':<20}{'MB':>6}{'MB/s':>8}{'MB/processor s':>16}{'headrace / it':>20}")
    rates = {
        name: [megabytes[name] / statistics.median(column) for column in zip(*runs, strict=True)]
        for name, runs in found.items()
        if runs
    }
    for name, (clock, processor) in rates.items():
        ratios = (
            ""
            if name.startswith("headrace")
            else (
                f"{rates['headrace'][0] / clock:8.1f} ({rates['headrace'][1] / processor:.1f} by processor)"
            )
        )
        print(f"{name:<20}{megabytes[name]:6.0f}{clock:8.1f}{processor:16.1f}   {ratios}")


if __name__ == "__main__":
    main()
