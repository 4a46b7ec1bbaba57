"""`headrace plan`: fix an order over datasets, and say what it holds."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.dataeng.plan import Plan

HELP = "fix the order of every sample over one or more datasets"

EXAMPLE = """\
examples:
  headrace plan corpus/ --sequence-length 2048 --out plan.json
  headrace plan code/ web/ s3://bucket/books --weights 0.5,0.3,0.2 --sequence-length 4096 --seed 7 --out plan.json
  headrace plan --plan plan.json                        show a saved plan
  headrace plan --plan plan.json --locate 0,1,81204     where these samples lie

The plan's hash covers the datasets' content, the tokenizer, --weights, --sequence-length, --seed, --lanes, --window and
--train-across-documents; it does not cover batch size, ranks or threads, which may change at any restart.

exit codes: 0 fine; 2 a dataset or plan that cannot be read or used, or bad usage"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("datasets", nargs="*", metavar="DATASET", help="directories or fsspec URIs")
    parser.add_argument("--plan", metavar="FILE", help="read this plan instead of making one")
    parser.add_argument("--weights", metavar="W,W,...", help="one weight a dataset (default: all 1)")
    parser.add_argument("--sequence-length", type=int, metavar="T", help="input tokens a sample")
    parser.add_argument("--seed", type=int, metavar="N", help="names the order (default 0)")
    parser.add_argument("--lanes", type=int, metavar="N", help="runs the stream is dealt from (default 960)")
    parser.add_argument("--window", type=int, metavar="N", help="sequences shuffled together (default 8192)")
    parser.add_argument(
        "--train-across-documents",
        action="store_true",
        help="keep labels that are the first token of another document",
    )
    parser.add_argument("--out", metavar="FILE", help="write the plan here")
    parser.add_argument("--locate", metavar="ID,ID,...", help="print where these samples lie")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    plan = _load(args) if args.plan else _make(args)
    if args.out:
        plan.save(args.out)
    if args.locate:
        from headrace.cli.sample_ids import sample_ids

        _show_positions(plan, sample_ids("--locate", args.locate), as_json=args.json)
    elif args.json:
        print(json.dumps(_summary(plan), indent=1, sort_keys=True))
    else:
        _show(plan)
        if args.out:
            print(f"\nwritten to {args.out}")
    return 0


def _load(args: argparse.Namespace) -> Plan:
    from headrace.dataeng.plan import Plan
    from headrace.errors import InputError, UsageError

    given = [
        option
        for option in (
            "weights",
            "sequence_length",
            "seed",
            "lanes",
            "window",
            "train_across_documents",
            "out",
        )
        if getattr(args, option) is not None and getattr(args, option) is not False
    ]
    if args.datasets or given:
        extra = ["a dataset"] if args.datasets else []
        extra += [f"--{option.replace('_', '-')}" for option in given]
        raise UsageError(
            f"--plan shows a plan as it is, so it cannot go with {', '.join(extra)}; leave one of them out"
        )
    try:
        return Plan.load(args.plan)
    except FileNotFoundError:
        raise InputError(
            f"{args.plan} does not exist; make it with `headrace plan DATASET --sequence-length T --out {args.plan}`"
        ) from None


def _make(args: argparse.Namespace) -> Plan:
    from headrace.dataeng.plan import Plan
    from headrace.dataeng.source import PlanSource
    from headrace.errors import UsageError

    if not args.datasets:
        raise UsageError("no dataset given; name at least one, or --plan FILE to show a saved plan")
    if args.sequence_length is None:
        raise UsageError(
            "--sequence-length is missing: how many input tokens a sample has, for instance 2048"
        )
    weights = _weights(args.weights, len(args.datasets))
    options = {
        name: getattr(args, name) for name in ("seed", "lanes", "window") if getattr(args, name) is not None
    }
    return Plan.create(
        [PlanSource.open(uri, weight=weight) for uri, weight in zip(args.datasets, weights, strict=True)],
        sequence_length=args.sequence_length,
        mask_document_labels=not args.train_across_documents,
        **options,
    )


def _weights(text: str | None, count: int) -> list[float]:
    from headrace.errors import UsageError

    if text is None:
        return [1.0] * count
    try:
        weights = [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--weights {text}: expected numbers separated by commas, such as 0.7,0.3") from None
    if len(weights) != count:
        raise UsageError(
            f"--weights {text}: {len(weights)} weights for {count} datasets; give one each, in their order"
        )
    return weights


def _summary(plan: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "hash": plan.hash,
        "order": asdict(plan.order),
        "vocab_size": plan.vocab_size,
        "sources": [
            {
                "name": source.name,
                "content_hash": source.content_hash,
                "shards": len(source.tokens),
                "tokens": int(source.tokens.sum()),
                "sequences": int(count),
                "unused_tokens": int(source.tokens.sum() - count * plan.sequence_length),
            }
            for source, count in zip(plan.sources, plan.num_sequences, strict=True)
        ],
        "stages": [
            {
                "start": stage.start,
                "sources": {
                    plan.sources[k].name: {
                        "share": weight / sum(stage.weights),
                        "samples_an_epoch": int(plan.num_sequences[k] * sum(stage.weights) / weight),
                    }
                    for k, weight in enumerate(stage.weights)
                    if weight
                },
            }
            for stage in plan.stages
        ],
    }


def _show(plan: Plan) -> None:
    summary = _summary(plan)
    order = plan.order
    print(f"plan       {plan.hash}")
    print(
        f"order      sequence length {order.sequence_length:,}, seed {order.seed}, {order.lanes:,} lanes, "
        f"windows of {order.window:,}"
    )
    crossing = "masked" if order.mask_document_labels else "trained on"
    print(f"labels     across documents: {crossing}\n")
    print(f"{'source':<24}{'shards':>10}{'tokens':>18}{'sequences':>16}{'unused tokens':>16}")
    for source in summary["sources"]:
        print(
            f"{source['name']:<24}{source['shards']:>10,}{source['tokens']:>18,}{source['sequences']:>16,}"
            f"{source['unused_tokens']:>16,}"
        )
    for stage in summary["stages"]:
        print(f"\nfrom sample {stage['start']:,}")
        for name, mixed in stage["sources"].items():
            print(
                f"  {name:<22} {mixed['share']:7.2%}, seen once every {mixed['samples_an_epoch']:,} samples"
            )
    print("\nunused: the tail of each shard, too short for one more sequence")


def _show_positions(plan: Plan, ids: list[int], *, as_json: bool) -> None:
    where = plan.locate(ids)
    columns = (where.source, where.epoch, where.shard, where.sequence)
    rows = [
        {"sample": i, "source": plan.sources[k].name, "epoch": e, "shard": s, "sequence": q}
        for i, k, e, s, q in zip(ids, *(column.tolist() for column in columns), strict=True)
    ]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'sample':>20}  {'source':<24}{'epoch':>10}{'shard':>12}{'sequence':>14}")
    for row in rows:
        print(
            f"{row['sample']:>20,}  {row['source']:<24}{row['epoch']:>10,}{row['shard']:>12,}{row['sequence']:>14,}"
        )
