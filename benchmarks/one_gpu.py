"""The trainer on one CUDA device: bf16 against fp32, a killed run against a whole one, and its rate.

    python -m benchmarks.one_gpu [--out bench-out] [--result FILE]

Everything is real: a corpus tokenized by the command line, the streaming loader, torchrun, SIGKILL. Correctness comes
first; the rate is only printed if the runs agree.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import yaml

from examples.demo import corpus, equality, vocabulary
from examples.demo.jobs import Job

STEPS, KILL_AFTER = 40, 25


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """A model and its batch."""

    name: str
    width: int
    num_layers: int
    num_heads: int
    num_experts: int
    expert_width: int
    experts_per_token: int
    batch: int
    micro_batch: int
    sequence_length: int


SMALL = Shape(
    name="small",
    width=512,
    num_layers=4,
    num_heads=8,
    num_experts=16,
    expert_width=512,
    experts_per_token=2,
    batch=32,
    micro_batch=16,
    sequence_length=512,
)
LARGE = Shape(
    name="large",
    width=2048,
    num_layers=8,
    num_heads=16,
    num_experts=64,
    expert_width=1024,
    experts_per_token=8,
    batch=16,
    micro_batch=4,
    sequence_length=4096,
)


def make_dataset(out: Path) -> Path:
    texts = corpus.read_standard_library().documents
    files = corpus.write_parquet(texts, out)
    vocabulary.train((document.text for document in texts), out / "tokenizer.json")
    command = [sys.executable, "-m", "headrace", "tokenize", "--out", str(out / "dataset")]
    command += ["--tokenizer", str(out / "tokenizer.json"), "--text-column", "text", "--id-column", "path"]
    subprocess.run([*command, "--max-rejects", "0.05", *map(str, files)], check=True)
    return out / "dataset"


def write_config(path: Path, dataset: Path, shape: Shape, *, precision: str, deterministic: bool) -> Path:
    config: dict[str, Any] = {
        "run": {"dir": "unset"},
        "data": {"sources": [{"uri": str(dataset)}], "sequence_length": shape.sequence_length},
        "model": {
            "vocab_size": 16384,
            "width": shape.width,
            "num_layers": shape.num_layers,
            "num_heads": shape.num_heads,
            "num_kv_heads": shape.num_heads // 4,
            "moe": {
                "num_experts": shape.num_experts,
                "experts_per_token": shape.experts_per_token,
                "expert_width": shape.expert_width,
                "shared_width": shape.expert_width,
            },
        },
        "train": {
            "steps": STEPS,
            "global_batch_size": shape.batch,
            "micro_batch_size": shape.micro_batch,
            "precision": precision,
            "deterministic": deterministic,
            "checkpoint_every": 10 if deterministic else STEPS,
        },
        "schedule": {"warmup_steps": 5},
    }
    path.write_text(yaml.safe_dump(config))
    return path


def run(config: Path, directory: Path) -> list[equality.Row]:
    code = Job(config, directory, processes=1, say=print).wait()
    if code:
        raise SystemExit(f"{directory}: exit code {code}")
    return equality.read_metrics(directory)


def check(out: Path, dataset: Path) -> list[str]:
    """Lines of the report; raises `SystemExit` if a run that must be equal is not."""
    half = write_config(out / "bf16.yaml", dataset, SMALL, precision="bf16", deterministic=True)
    exact = write_config(out / "fp32.yaml", dataset, SMALL, precision="fp32", deterministic=True)
    whole = run(half, out / "whole")
    Job(half, out / "killed", processes=1, say=print).kill_after(KILL_AFTER)
    killed = run(half, out / "killed")
    lines = []
    for label, fields in (
        ("tokens", equality.STREAM),
        ("loss and gradient norm, bit for bit", equality.RESULT),
    ):
        found = equality.compare(whole, killed, fields)
        complete = found.steps == len(whole) == STEPS and found.tellings > STEPS  # all there, some done twice
        equal = found.equal and complete
        lines.append(
            f"killed after step {KILL_AFTER} and restarted, {label}: {'equal' if equal else 'DIFFER'}"
        )
        lines += found.differences[:5]
        if not equal:
            raise SystemExit("\n".join(lines))
    reference = run(exact, out / "fp32")
    if not equality.compare(whole, reference, equality.STREAM).equal:
        raise SystemExit("bf16 and fp32 consumed different tokens")
    gaps = [abs(a["loss"] - b["loss"]) for a, b in zip(whole, reference, strict=True)]
    lines.append(
        f"bf16 against fp32 over {STEPS} steps: loss {whole[0]['loss']:.4f} to {whole[-1]['loss']:.4f}, fp32 "
        f"{reference[-1]['loss']:.4f}; largest difference {max(gaps):.4f}, at the first step {gaps[0]:.5f}"
    )
    return lines


def measure(out: Path, dataset: Path) -> list[str]:
    config = write_config(out / "large.yaml", dataset, LARGE, precision="bf16", deterministic=False)
    steady = run(config, out / "large")[10:]
    rate = statistics.median(row["tokens_per_second"] for row in steady)
    wait = sum(row["wait_seconds"] for row in steady) / sum(row["seconds"] for row in steady)
    shape = json.dumps(dataclasses.asdict(LARGE))
    return [
        f"{shape}",
        f"  {rate:,.0f} tokens/s (median of {len(steady)} steps), waiting for data {wait:.4%} of the time",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("bench-out") / "one_gpu")
    parser.add_argument("--result", type=Path, help="also write the report here")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=False)
    dataset = make_dataset(args.out)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    report = [
        f"{today}, {torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    ]
    for part in (check, measure):
        report += part(args.out, dataset)
        print("\n".join(report), flush=True)
        if args.result is not None:
            args.result.write_text("\n".join(report) + "\n")


if __name__ == "__main__":
    main()
