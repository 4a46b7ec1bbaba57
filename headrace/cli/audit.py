"""`headrace audit`: prove from a run's ledger that no sample was missed or repeated."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.dataeng.plan import Plan
    from headrace.manifests.ledger import Record, Step

HELP = "prove from a run's ledger that no sample was missed or repeated, through every restart"

EXAMPLE = """\
examples:
  headrace audit runs/a
  headrace audit runs/a --replay 100     also read 100 steps' tokens again and compare their digests

exit codes: 0 the ledger is clean; 1 a hole, a repeat, other tokens or a damaged ledger was found; 2 no such run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("run", metavar="RUN", type=Path, help="run directory")
    parser.add_argument(
        "--replay",
        type=int,
        default=0,
        metavar="N",
        help="read N steps, spread over the run, from the datasets again",
    )
    parser.add_argument(
        "--cache-dir", type=Path, metavar="DIR", help="node cache for remote or compressed datasets"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.cli.run_directory import read_run_ledger, read_run_plan
    from headrace.errors import UsageError
    from headrace.manifests.ledger import audit

    if args.replay < 0:
        raise UsageError(f"--replay {args.replay}: expected a number of steps, 0 or more")
    records = read_run_ledger(args.run)
    report = audit(records)
    plan = read_run_plan(args.run)
    problems = [*report.problems, *_plan_problems(records, plan)]
    replayed = _spread(report.steps, args.replay)
    problems += _replay_problems(plan, replayed, args.cache_dir)
    end = report.steps[-1].end_sample if report.steps else 0
    if args.json:
        value = {
            "ok": not problems,
            "plan": plan.hash,
            "attempts": report.attempts,
            "steps": len(report.steps),
            "samples": end,
            "tokens": end * plan.sequence_length,
            "steps_done_again": report.replayed_steps,
            "steps_read_again": len(replayed),
            "problems": problems,
        }
        print(json.dumps(value, indent=1, sort_keys=True))
    else:
        print(f"plan       {plan.hash}")
        print(
            f"ledger     {report.attempts:,} starts, {len(report.steps):,} steps, {report.replayed_steps:,} done again"
        )
        print(
            f"consumed   samples 0 to {end - 1:,}, {end * plan.sequence_length:,} tokens"
            if end
            else "consumed   nothing"
        )
        if replayed:
            print(f"read again {len(replayed):,} steps")
        for problem in problems:
            print(f"PROBLEM    {problem}")
        print("result     " + ("NOT CLEAN" if problems else "clean: every sample exactly once"))
    return 1 if problems else 0


def _plan_problems(records: Sequence[Record], plan: Plan) -> list[str]:
    from headrace.manifests.ledger import Begin

    return [
        f"attempt {record.attempt} ran plan {record.plan_hash[:16]}…, the run directory holds plan {plan.hash[:16]}…"
        for record in records
        if isinstance(record, Begin) and not plan.includes(record.plan_hash)
    ]


def _spread(steps: list[Step], count: int) -> list[Step]:
    """`count` of the steps, evenly spread, the first and the last among them."""
    if count >= len(steps):
        return steps if count else []
    if count == 1:
        return steps[-1:]
    return [steps[index * (len(steps) - 1) // (count - 1)] for index in range(count)] if count else []


def _replay_problems(plan: Plan, steps: list[Step], cache_dir: Path | None) -> list[str]:
    from headrace.dataeng.assemble import Assembler

    if not steps:
        return []
    assembler = Assembler(plan, cache_dir)
    problems = []
    for step in steps:
        digest = f"{assembler.build(step.first_sample, step.end_sample, 0, 1).digest:016x}"
        if digest != step.digest:
            problems.append(
                f"step {step.step:,} consumed tokens of digest {step.digest}; the datasets now hold {digest} for its "
                f"samples {step.first_sample:,} to {step.end_sample - 1:,}"
            )
    return problems
