"""Every kernel benchmark: `python -m benchmarks.kernels [--result FILE]`, on one CUDA device."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

import torch
import triton

from benchmarks.kernels import loss, moe


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.kernels", description=__doc__)
    parser.add_argument("--shapes", nargs="*", choices=list(moe.SHAPES), default=list(moe.SHAPES))
    parser.add_argument("--no-peers", action="store_true", help="leave out torch, eager and compiled")
    parser.add_argument("--result", type=Path, metavar="FILE", help="append what is printed to FILE")
    args = parser.parse_args()

    lines: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    today = datetime.datetime.now(tz=datetime.UTC).date()
    say(f"{today}, {torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    moe.check(say)
    loss.check(say)
    for name in args.shapes:
        moe.measure(moe.SHAPES[name], say, peers=not args.no_peers)
    torch.cuda.empty_cache()
    loss.measure(say, peers=not args.no_peers)
    if args.result is not None:
        with args.result.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
