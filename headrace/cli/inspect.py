"""`headrace inspect`: what is in a dataset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.dataeng.dataset import Dataset
    from headrace.tokenize.survey import Document

HELP = "show what is in a dataset: counts, lengths, sources, rejects, one document decoded"

EXAMPLE = """\
examples:
  headrace inspect corpus/
  headrace inspect corpus/ --number 12             the document number 12, decoded, with its lineage
  headrace inspect corpus/ --document 'doc-81204'  the document with this id
  headrace inspect corpus/ --json | jq .counts

exit codes: 0 shown; 1 a file is damaged; 2 no dataset, or no such document"""

_SHOWN_SOURCES = 20
_BAR = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument("dataset", metavar="DATASET", help="directory or fsspec URI")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--document", metavar="ID", help="decode the document with this id")
    which.add_argument("--number", type=int, metavar="N", help="decode the document number N, from 0")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.dataeng.dataset import Dataset

    dataset = Dataset.open(args.dataset)
    if args.document is not None or args.number is not None:
        from headrace.tokenize.survey import document_by_id, document_by_number

        if args.document is not None:
            found = document_by_id(dataset, args.document)
        else:
            found = document_by_number(dataset, args.number)
        _show_document(found, as_json=args.json)
    elif args.json:
        _print_json(_summary(dataset))
    else:
        _show_dataset(dataset)
    return 0


def _show_document(document: Document, *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        _print_json(asdict(document))
        return
    origin = ", ".join(f"{name} {value}" for name, value in document.lineage.items() if value is not None)
    print(f"document {document.number:,}: {document.shard}, document {document.index:,} there")
    print(f"{origin}\n")
    print(document.text)


def _summary(dataset: Dataset) -> dict[str, Any]:
    from dataclasses import asdict

    from headrace.tokenize.survey import lengths, sources

    histogram, surveyed = lengths(dataset)
    manifest = asdict(dataset.manifest)
    del manifest["files"]
    return {
        "manifest": dataset.manifest.hash,
        **manifest,
        "sources": sources(dataset),
        "lengths": {
            "shards": surveyed,
            "histogram": [{"from": a, "below": b, "documents": n} for a, b, n in histogram],
        },
    }


def _show_dataset(dataset: Dataset) -> None:
    summary = _summary(dataset)
    manifest = dataset.manifest
    counts, identity = manifest.counts, manifest.tokenizer
    stored = int(dataset.shards.column("stored_bytes").sum())
    raw = int(dataset.shards.column("raw_bytes").sum())
    print(f"manifest   {summary['manifest']}")
    print(f"content    {manifest.content_hash}")
    print(f"tokenizer  {identity.name} ({identity.library}), sha256 {identity.sha256[:16]}...")
    print(
        f"frame      before {_token(identity.bos, identity.bos_id)}, after {_token(identity.eos, identity.eos_id)}"
    )
    print(f"rows       {counts.rows:,} = {counts.documents:,} documents + {counts.rejected:,} rejected")
    for reason, number in manifest.rejects.items():
        print(f"             {number:,} {reason}")
    print(
        f"tokens     {counts.tokens:,} {manifest.dtype}, {counts.text_bytes / counts.tokens:.2f} bytes a token"
    )
    print(f"shards     {counts.shards:,}, {raw:,} bytes, stored in {stored:,} ({manifest.compression})")
    print("\ntokens by source")
    sources = summary["sources"]
    for source in sources[:_SHOWN_SOURCES]:
        share = source["tokens"] / counts.tokens
        print(
            f"  {source['tokens']:>16,}  {share:6.1%}  {source['documents']:,} documents  {source['source']}"
        )
    if len(sources) > _SHOWN_SOURCES:
        print(f"  and {len(sources) - _SHOWN_SOURCES:,} more files (--json lists all)")
    surveyed = summary["lengths"]["shards"]
    of = "" if surveyed == counts.shards else f" (in {surveyed:,} of {counts.shards:,} shards)"
    print(f"\ndocuments by tokens{of}")
    histogram = summary["lengths"]["histogram"]
    most = max(entry["documents"] for entry in histogram)
    for entry in histogram:
        bar = "█" * round(_BAR * entry["documents"] / most)
        print(f"  {entry['from']:>12,} - {entry['below'] - 1:<12,} {entry['documents']:>12,}  {bar}")


def _token(token: str | None, token_id: int | None) -> str:
    return "nothing" if token is None else f"{token!r} ({token_id})"


def _print_json(value: Any) -> None:
    import json

    print(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False))
