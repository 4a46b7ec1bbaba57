"""`headrace trace`: the documents behind a step or a sample."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.dataeng.plan import Plan
    from headrace.dataeng.trace import Piece, TracedSample

HELP = "name the documents behind a step or a sample, and show their text"

EXAMPLE = """\
examples:
  headrace trace runs/a --step 81204                   every sample of the step
  headrace trace runs/a --step 81204 --rank 3 --json   what rank 3 saw, for a program
  headrace trace plan.json --sample 1000,1001          without a run

Steps are counted from 0, as in the ledger and the metrics. Of each document the first lines of its part of the sample
are shown; --json has all of it.

exit codes: 0 traced; 1 a shard or its lineage is damaged; 2 no such run, step or sample"""

_TEXT_WIDTH = 96
_TEXT_LINES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("run", metavar="RUN", type=Path, help="run directory (or a plan file, with --sample)")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--step", type=int, metavar="N", help="a step of the run")
    what.add_argument("--sample", metavar="ID,ID,...", help="sample ids")
    parser.add_argument("--rank", type=int, metavar="R", help="with --step: only what this rank saw")
    parser.add_argument(
        "--limit", type=int, default=8, metavar="N", help="samples shown as text (default 8; 0 is all)"
    )
    parser.add_argument(
        "--cache-dir", type=Path, metavar="DIR", help="node cache for remote or compressed datasets"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: every sample, with token ids and text"
    )


def run(args: argparse.Namespace) -> int:
    from headrace.cli.run_directory import read_run_plan
    from headrace.dataeng.trace import Tracer
    from headrace.errors import UsageError

    if args.rank is not None and args.step is None:
        raise UsageError("--rank goes with --step: a sample alone says nothing about ranks")
    if args.limit < 0:
        raise UsageError(f"--limit {args.limit}: expected 0 (all) or more")
    if args.step is None:
        from headrace.cli.sample_ids import sample_ids

        samples, headline = sample_ids("--sample", args.sample), ""
    else:
        samples, headline = _samples_of_step(args.run, args.step, args.rank)
    plan = read_run_plan(args.run)
    shown = samples if args.json or args.limit == 0 else samples[: args.limit]
    traced = list(Tracer(plan, args.cache_dir).trace(shown))
    decoders = _decoders(plan, {sample.source for sample in traced})
    if args.json:
        print(json.dumps([_as_json(sample, decoders) for sample in traced], indent=1, ensure_ascii=False))
        return 0
    if headline:
        print(headline)
    for sample in traced:
        _show(sample, decoders)
    if len(shown) < len(samples):
        print(f"\n{len(samples) - len(shown):,} more samples; --limit 0 shows all")
    return 0


def _samples_of_step(run_directory: Path, step: int, rank: int | None) -> tuple[list[int], str]:
    """The step's sample ids, and what the ledger says of it in a line."""
    from headrace.cli.run_directory import read_run_ledger
    from headrace.dataeng.assemble import rank_ids
    from headrace.errors import UsageError
    from headrace.manifests.ledger import Begin, audit

    records = read_run_ledger(run_directory)
    history = audit(records).steps
    if not 0 <= step < len(history) or history[step].step != step:
        last = f"has steps 0 to {len(history) - 1:,}" if history else "has no step yet"
        raise UsageError(f"step {step:,} is not in the ledger of {run_directory}, which {last}")
    record = history[step]
    begin = next(r for r in records if isinstance(r, Begin) and r.attempt == record.attempt)
    headline = (
        f"step {step:,}: samples {record.first_sample:,} to {record.end_sample - 1:,}, digest {record.digest}, "
        f"{begin.world_size} ranks, attempt {record.attempt}"
    )
    if rank is None:
        return list(range(record.first_sample, record.end_sample)), headline
    if not 0 <= rank < begin.world_size:
        raise UsageError(f"--rank {rank}: the step ran on ranks 0 to {begin.world_size - 1}")
    ids = rank_ids(record.first_sample, record.end_sample, rank, begin.world_size).tolist()
    return ids, f"{headline}, rank {rank}"


def _decoders(plan: Plan, names: set[str]) -> dict[str, Any]:
    """One tokenizer a source: the copy that lies in its dataset."""
    from headrace.tokenize.publish import TOKENIZER
    from headrace.tokenize.tokenizers import load

    return {
        source.name: load(source.dataset.read(TOKENIZER), source.dataset.store.describe(TOKENIZER))
        for source in plan.sources
        if source.name in names and source.dataset is not None
    }


def _text(sample: TracedSample, piece: Piece, decoders: dict[str, Any]) -> str:
    text: str = decoders[sample.source].decode(piece.ids, skip_special_tokens=False)
    return text


def _as_json(sample: TracedSample, decoders: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import asdict

    value = asdict(sample)
    for told, piece in zip(value["pieces"], sample.pieces, strict=True):
        told["text"] = _text(sample, piece, decoders)
    return value


def _show(sample: TracedSample, decoders: dict[str, Any]) -> None:
    from headrace.dataeng.lineage import place

    print(
        f"\nsample {sample.sample:,}: source {sample.source}, epoch {sample.epoch}, {sample.shard}, "
        f"sequence {sample.sequence:,}"
    )
    for piece in sample.pieces:
        where = place(piece.row_group, piece.row, piece.byte_offset)
        name = piece.document_id if piece.document_id is not None else "(no id)"
        print(
            f"  [{piece.column:>5}] {name}: tokens {piece.token_begin:,} to {piece.token_end - 1:,} of "
            f"{piece.document_tokens:,}, from {piece.file} {where}"
        )
        for line in _shown_lines(_text(sample, piece, decoders), cut=piece.token_begin > 0):
            print(f"          {_clip(line)}")


def _shown_lines(text: str, *, cut: bool) -> list[str]:
    """The first lines with something in them. The very first is but the end of one if the piece was `cut` there."""
    first, *rest = text.splitlines() or [""]
    whole = [line for line in rest if line.strip()]
    if not cut or not whole:
        whole = [line for line in (first,) if line.strip()] + whole
    return whole[:_TEXT_LINES]


def _clip(line: str) -> str:
    """One line of text, without control characters, cut to a terminal's width."""
    plain = "".join(c if c.isprintable() else "·" for c in line.replace("\t", "    "))
    return plain if len(plain) <= _TEXT_WIDTH else plain[: _TEXT_WIDTH - 1] + "…"
