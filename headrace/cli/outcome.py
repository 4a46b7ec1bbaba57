"""How a tokenization ended: the table and the JSON on stdout, on stderr what there is to tell of this run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from headrace.cli.terminal import duration, table
from headrace.dataeng.printable import printable

if TYPE_CHECKING:
    from headrace.manifests.dataset import DatasetManifest
    from headrace.tokenize.estimate import Estimate, Range
    from headrace.tokenize.pipeline import Outcome
    from headrace.tokenize.repair import Repaired
    from headrace.tokenize.shares import ScanOutcome, ShareOutcome

_SHOWN_IGNORED = 5


def tell_outcome(outcome: Outcome, out: str, *, as_json: bool) -> None:
    """What goes to stdout is the same for the same dataset."""
    tell_notes(outcome.notes)
    if as_json:
        print_json(as_value(outcome))
        return
    if outcome.ignored:
        names = ", ".join(printable(name) for name in outcome.ignored[:_SHOWN_IGNORED])
        more = " ..." if len(outcome.ignored) > _SHOWN_IGNORED else ""
        print(f"passed over {len(outcome.ignored):,} files that are not data: {names}{more}", file=sys.stderr)
    print(dataset_table(outcome.manifest, out, already_complete=outcome.already_complete))
    if outcome.already_complete:
        print(
            "complete already: every file is there, with its size. `headrace verify` reads and hashes them all",
            file=sys.stderr,
        )


def tell_estimate(estimate: Estimate, *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        print_json(asdict(estimate))
        return

    def told(value: Range, unit: str = "") -> str:
        sure = f"  ({value.low:,.0f} to {value.high:,.0f})" if round(value.low) != round(value.high) else ""
        return f"{value.likely:,.0f}{unit}{sure}"

    seconds = estimate.seconds
    reasons = sorted(estimate.rejects.items(), key=lambda entry: -entry[1])
    tell_notes(estimate.notes)
    print(
        table(
            [
                ("sample", f"{estimate.sampled_slices:,} of {estimate.slices:,} slices, {estimate.sampled_text_bytes:,} bytes of text"),
                ("documents", told(estimate.documents)),
                ("rejected", told(estimate.rejected)),
                *(("", f"{count:,.0f} {printable(reason)}") for reason, count in reasons),
                ("text", told(estimate.text_bytes, " bytes")),
                ("tokens", told(estimate.tokens)),
                ("stored", told(estimate.stored_bytes, " bytes, with lineage")),
                ("units", f"{estimate.units:,}"),
                ("time", f"{duration(seconds.likely)} with {estimate.workers:,} workers here  ({duration(seconds.low)} to {duration(seconds.high)})"),
                ("disk", f"{estimate.disk_bytes:,} bytes to have free at --out"),
            ]
        )
    )  # fmt: skip


def tell_repaired(repaired: Repaired, out: str, *, as_json: bool) -> int:
    """Returns the exit code: 1 if something is damaged still."""
    from headrace.dataeng.storage import redact

    if as_json:
        print_json(
            {
                "manifest": repaired.manifest.hash,
                "repaired": list(repaired.files),
                "left": list(repaired.left),
                "units_done_again": repaired.units,
            }
        )
        return 1 if repaired.left else 0
    for name in repaired.files:
        print(f"repaired {name}")
    for name in repaired.left:
        print(
            f"DAMAGED  {name}: not made by this command: repair it with the tokenization that made it, or restore it from a copy or from its parent version"
        )
    told = f"{len(repaired.files):,} files repaired" if repaired.files else "nothing to repair"
    print(
        f"{told}, {repaired.units:,} units done again: {printable(redact(out))}\nmanifest {repaired.manifest.hash}"
    )
    return 1 if repaired.left else 0


def tell_share(outcome: ShareOutcome, share: str, *, scanned: bool = False, as_json: bool) -> None:
    """`scanned`: duplicates were looked for, and nothing was tokenized."""
    tell_notes(outcome.notes)
    if as_json:
        from dataclasses import asdict

        print_json({"share": share, **asdict(outcome)})
        return
    done = "scanned" if scanned else "done"
    print(
        f"share {share}: all of its {outcome.units:,} units are {done}; {outcome.units_done:,} of {outcome.units_total:,} "
        "units of the whole job. When all are, run the command with --finish instead of --shard-of"
    )


def tell_scan(outcome: ScanOutcome, *, as_json: bool) -> None:
    """What is left out, before anything is tokenized."""
    if as_json:
        from dataclasses import asdict

        print_json(asdict(outcome))
        return
    print(
        f"{outcome.duplicates:,} documents have the text of an earlier one, and {outcome.near_duplicates:,} more nearly so. "
        "Run the shares without --scan now: they leave these out"
    )


def tell_notes(notes: tuple[str, ...]) -> None:
    for note in notes:
        print(f"headrace: {printable(note)}", file=sys.stderr)


def as_value(outcome: Outcome) -> dict[str, Any]:
    """For `--json`."""
    from dataclasses import asdict

    manifest = outcome.manifest
    return {
        "manifest": manifest.hash,
        "content_hash": manifest.content_hash,
        "already_complete": outcome.already_complete,
        "counts": asdict(manifest.counts),
        "rejects": manifest.rejects,
        "ignored_files": list(outcome.ignored),
    }


def dataset_table(manifest: DatasetManifest, out: str, *, already_complete: bool = False) -> str:
    """What there is now, a fact a line; rejects by reason, the most first."""
    from headrace.dataeng.storage import redact

    counts, eos = manifest.counts, manifest.tokenizer.eos
    column = manifest.config.get("text_column")
    ends = f", each document ends with {eos!r}" if eos else ""
    rows = [
        ("dataset", f"{printable(redact(out))}{' (was already complete)' if already_complete else ''}"),
        ("rows", f"{counts.rows:,} = {counts.documents:,} documents + {counts.rejected:,} rejected"),
        *reject_rows(manifest),
        *([("text", f"{counts.text_bytes:,} bytes" + (f", from {column!r}" if column else ""))] if counts.text_bytes else []),
        ("tokens", f"{counts.tokens:,} {manifest.dtype}"),
        ("", (f"{counts.text_bytes / counts.tokens:.2f} bytes a token, " if counts.text_bytes else "") + f"{counts.tokens / counts.documents:,.1f} tokens a document"),
        ("shards", f"{counts.shards:,} (compression {manifest.compression})"),
        ("tokenizer", f"{manifest.tokenizer.name}{ends}"),
        ("manifest", manifest.hash),
        *([] if manifest.parent is None else [("parent", manifest.parent)]),
    ]  # fmt: skip
    return table(rows)


def reject_rows(manifest: DatasetManifest) -> list[tuple[str, str]]:
    """A row a reason: how many, and the share of all rows. First what was wrong with rows, then what was left out on wish.

    Of either the most first.
    """
    from headrace.tokenize.filters.reasons import was_asked_for

    digits = len(f"{max(manifest.rejects.values(), default=0):,}")
    ordered = sorted(manifest.rejects.items(), key=lambda entry: (-entry[1], entry[0]))
    rows: list[tuple[str, str]] = []
    for name, asked_for in (("rejected", False), ("filtered", True)):
        for reason, count in ordered:
            if was_asked_for(reason) == asked_for:
                share = count / manifest.counts.rows
                rows.append((name, f"{count:>{digits},}  {share:6.2%}  {printable(reason)}"))
                name = ""
    return rows


def print_json(value: Any) -> None:
    """Sorted, so that two outcomes can be compared; other than ASCII as it is."""
    import json

    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))
