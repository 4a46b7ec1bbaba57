"""`headrace inspect`: what is in a dataset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from headrace.cli.filter_options import filter_rows
from headrace.cli.outcome import print_json, reject_rows
from headrace.cli.terminal import table
from headrace.dataeng.printable import printable

if TYPE_CHECKING:
    from headrace.tokenize.survey import Document, Survey

HELP = "show what is in a dataset: counts, lengths, sources, rejects, one document decoded"

EXAMPLE = """\
Reads the manifest, the tables and some lineage, never all shards. Documents are decoded from their tokens; characters
that a terminal would obey are spelt out (--json has them as they are). docs/inspect.md says what each number is.

examples:
  headrace inspect corpus/
  headrace inspect corpus/ --sample 5 --seed 7     five documents, the same ones on any machine
  headrace inspect corpus/ --number 12             the document number 12, decoded, with its lineage
  headrace inspect corpus/ --document 'doc-81204'  the document with this id
  headrace inspect corpus/ --html card.html        a page to publish beside the dataset
  headrace inspect corpus/ --json | jq .counts

exit codes: 0 shown; 1 a file is damaged; 2 no dataset, or no such document"""

_SHOWN_SOURCES = 20
_SHOWN_CHARACTERS = 2_000
_CARD_DOCUMENTS = 5
_BAR = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLE
    parser.add_argument(
        "dataset", metavar="DATASET", help="directory or fsspec URI; DATASET@HASH for an older version"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--document", metavar="ID", help="decode the document with this id")
    which.add_argument("--number", type=int, metavar="N", help="decode the document number N, from 0")
    which.add_argument("--sample", type=int, metavar="N", help="decode N documents, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which sample (default: 0)")
    parser.add_argument(
        "--sources",
        type=int,
        default=_SHOWN_SOURCES,
        metavar="N",
        help=f"source files to list, those with the most tokens (default: {_SHOWN_SOURCES})",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help=f"write a page about the dataset, with --sample documents in it (default: {_CARD_DOCUMENTS}; 0 for none)",
    )
    parser.add_argument(
        "--title",
        metavar="TEXT",
        help="of that page (default: the dataset's version, which is the same anywhere)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    from headrace.dataeng.dataset import Dataset
    from headrace.errors import UsageError

    for option, value in (("--sample", args.sample), ("--sources", args.sources)):
        if value is not None and value < 0:
            raise UsageError(f"{option} {value}: expected 0 or more")
    if args.html is None and args.title is not None:
        raise UsageError("--title is of the page that --html writes; give both")
    if args.html is not None and (args.document is not None or args.number is not None or args.json):
        raise UsageError(
            "--html writes a page about the whole dataset; leave out --document, --number and --json"
        )
    dataset = Dataset.open(args.dataset)
    if args.html is not None:
        from headrace.tokenize.card import write_card
        from headrace.tokenize.survey import sample, survey

        documents = sample(dataset, _CARD_DOCUMENTS if args.sample is None else args.sample, args.seed)
        write_card(args.html, survey(dataset, num_sources=args.sources), documents, title=args.title)
        print(f"wrote {args.html}")
    elif args.sample is not None:
        from headrace.tokenize.survey import sample

        _show_sample(sample(dataset, args.sample, args.seed), as_json=args.json)
    elif args.document is not None or args.number is not None:
        from headrace.tokenize.survey import document_by_id, document_by_number

        if args.document is not None:
            found = document_by_id(dataset, args.document)
        else:
            found = document_by_number(dataset, args.number)
        if args.json:
            print_json(_as_value(found))
        else:
            _show_document(found)
    else:
        from headrace.tokenize.survey import survey

        surveyed = survey(dataset, num_sources=args.sources)
        if args.json:
            print_json(_summary(surveyed))
        else:
            _show_dataset(surveyed)
    return 0


def _as_value(document: Document) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(document)


def _show_sample(documents: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json([_as_value(document) for document in documents])
        return
    for number, document in enumerate(documents):
        if number:
            print("\n" + "-" * 60)
        _show_document(document, limit=_SHOWN_CHARACTERS)


def _show_document(document: Document, limit: int | None = None) -> None:
    origin = ", ".join(
        f"{name} {printable(str(value))}" for name, value in document.lineage.items() if value is not None
    )
    print(f"document {document.number:,}: {document.shard}, document {document.index:,} there")
    print(f"{origin}\n")
    print(printable(document.text[:limit], lines=True))
    if limit is not None and len(document.text) > limit:
        print(
            f"... and {len(document.text) - limit:,} more characters (--number {document.number} shows all)"
        )


def _summary(survey: Survey) -> dict[str, Any]:
    from dataclasses import asdict

    manifest = asdict(survey.dataset.manifest)
    del manifest["files"]
    lengths = survey.lengths
    return {
        "manifest": survey.dataset.manifest.hash,
        **manifest,
        "raw_bytes": survey.raw_bytes,
        "stored_bytes": survey.stored_bytes,
        "num_sources": survey.num_sources,
        "sources": survey.sources,
        "lengths": {
            "shards": lengths.shards,
            "documents": lengths.documents,
            "quantiles": lengths.quantiles,
            "histogram": [{"from": a, "below": b, "documents": n} for a, b, n in lengths.histogram],
        },
    }


def _show_dataset(survey: Survey) -> None:
    manifest = survey.dataset.manifest
    counts, identity, lengths = manifest.counts, manifest.tokenizer, survey.lengths
    ratio = survey.raw_bytes / max(1, survey.stored_bytes)
    stored = f"1 : {ratio:.2f} of raw shards, {survey.stored_bytes / counts.tokens:.2f} a token"
    told = f"{counts.text_bytes:,} bytes, {counts.text_bytes / counts.tokens:.2f} a token"
    text = [("text", told)] if counts.text_bytes else []  # of adopted ids nobody knows
    rows = [
        ("manifest", manifest.hash),
        ("content", manifest.content_hash),
        ("tokenizer", f"{identity.name} ({identity.library}), sha256 {identity.sha256[:16]}..."),
        (
            "frame",
            f"before {_token(identity.bos, identity.bos_id)}, after {_token(identity.eos, identity.eos_id)}",
        ),
        *filter_rows(manifest.config),
        ("rows", f"{counts.rows:,} = {counts.documents:,} documents + {counts.rejected:,} rejected"),
        *reject_rows(manifest),
        *text,
        ("tokens", f"{counts.tokens:,} {manifest.dtype}, {counts.tokens / counts.documents:,.1f} a document"),
        ("shards", f"{counts.shards:,}, {survey.raw_bytes:,} bytes"),
        ("stored", f"{survey.stored_bytes:,} bytes ({manifest.compression}), {stored}"),
    ]
    print(table(rows))
    print("\ntokens by source")
    for source in survey.sources:
        share = source["tokens"] / counts.tokens
        print(
            f"  {source['tokens']:>16,}  {share:6.1%}  {source['documents']:>12,} documents  "
            f"{source['rejected']:>9,} rejected  {printable(source['source'])}"
        )
    if survey.num_sources > len(survey.sources):
        print(
            f"  and {survey.num_sources - len(survey.sources):,} more files (--sources N lists more; "
            "sources.parquet has all)"
        )
    whole = lengths.shards == counts.shards
    of = "" if whole else f" (in {lengths.shards:,} of {counts.shards:,} shards)"
    print(f"\ndocuments by tokens{of}")
    most = max(count for _, _, count in lengths.histogram)
    for least, below, count in lengths.histogram:
        bar = "█" * round(_BAR * count / most)
        print(f"  {least:>12,} - {below - 1:<12,} {count:>12,}  {bar}".rstrip())
    print("  " + ", ".join(f"{name} {value:,}" for name, value in lengths.quantiles.items()))


def _token(token: str | None, token_id: int | None) -> str:
    return "nothing" if token is None else f"{token!r} ({token_id})"
