"""A page about a dataset, to publish beside it: one HTML file that loads nothing and runs nothing.

Its bytes follow from the dataset, the sample and the title alone, so that it can be kept under version control. Every
word from the dataset is escaped, and characters that would not be shown as themselves are spelt out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from headrace.dataeng.lineage import place
from headrace.dataeng.printable import printable
from headrace.dataeng.storage import write_whole
from headrace.tokenize.card_style import HEAD, STYLE
from headrace.tokenize.filters.reasons import was_asked_for
from headrace.tokenize.survey import Document, Lengths, Survey

_SHOWN_CHARACTERS = 1_500


def write_card(path: str, survey: Survey, documents: Sequence[Document], *, title: str | None = None) -> None:
    """Writes `card` to a local file, whole or not at all."""
    write_whole(Path(path), card(survey, documents, title=title).encode())


def card(survey: Survey, documents: Sequence[Document], *, title: str | None = None) -> str:
    """The page. title: by default the dataset's version."""
    manifest = survey.dataset.manifest
    name = title if title is not None else f"Dataset {manifest.hash[:12]}"
    parts = [
        HEAD.format(title=_text(name), style=STYLE),
        f"<header><h1>{_text(name)}</h1><p>version <code>{manifest.hash}</code></p></header><main>",
        _numbers(survey),
        _section("Documents by tokens", _histogram(survey.lengths, manifest.counts.shards)),
        _section("Sources", _sources(survey)),
        _section("Rejected rows", _rejects(survey)),
        _section("Documents", _documents(documents)) if documents else "",
        _section("How it was made", _making(survey)),
        _section("Files and hashes", _files(survey)),
        _section("Use", _use(survey)),
        "</main></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _text(value: object) -> str:
    return escape(printable(str(value)))


def _name(value: object) -> str:
    """A name from anywhere, whose direction stays its own."""
    return f"<bdi>{_text(value)}</bdi>"


def _section(heading: str, body: str) -> str:
    anchor = heading.lower().replace(" ", "-")
    return f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{heading}</h2>\n{body}</section>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """`rows` are HTML already. Columns whose head begins with # hold numbers."""
    kinds = [' class="n"' if head.startswith("#") else "" for head in heads]
    top = "".join(
        f'<th scope="col"{kind}>{head.lstrip("#")}</th>' for head, kind in zip(heads, kinds, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    return f'<div class="wide"><table>{title}<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    """`rows`: a name and HTML."""
    body = "\n".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows)
    return f"<dl>{body}</dl>\n"


def _numbers(survey: Survey) -> str:
    counts = survey.dataset.manifest.counts
    text = [
        (_bytes(counts.text_bytes), "of text"),
        (f"{counts.text_bytes / counts.tokens:.2f}", "bytes a token"),
    ]
    if not counts.text_bytes:  # adopted ids, of whose text nobody knows
        text = []
    tiles = [
        (f"{counts.documents:,}", "documents"),
        (f"{counts.tokens:,}", "tokens"),
        *text,
        (f"{counts.tokens / counts.documents:,.0f}", "tokens a document"),
        (f"{counts.rejected:,}", f"of {counts.rows:,} rows rejected"),
        (f"{counts.shards:,}", "shards"),
        (_bytes(survey.stored_bytes), f"stored, 1 : {survey.raw_bytes / max(1, survey.stored_bytes):.2f}"),
    ]
    body = "\n".join(f"<li><b>{number}</b> <span>{what}</span></li>" for number, what in tiles)
    return f'<ul class="tiles" aria-label="In numbers">{body}</ul>'


def _histogram(lengths: Lengths, num_shards: int) -> str:
    """A bar a power of two, drawn as SVG, with the same numbers as a table."""
    width, height, foot = 46, 160, 34
    most = max(count for _, _, count in lengths.histogram)
    bars = []
    for number, (least, below, count) in enumerate(lengths.histogram):
        tall = max(1, round(height * count / most)) if count else 0
        left, top = number * width, height - tall
        bars.append(
            f"<g><title>{least:,} to {below - 1:,} tokens: {count:,} documents</title>"
            f'<rect x="{left + 4}" y="{top}" width="{width - 8}" height="{tall}" rx="2"/>'
            f'<text x="{left + width // 2}" y="{height + 15}">{_short(least)}</text></g>'
        )
    total = width * len(lengths.histogram)
    quantiles = ", ".join(f"{name} {value:,}" for name, value in lengths.quantiles.items())
    told = f"Documents by tokens, in powers of two: {quantiles}."
    rows = ((f"{least:,}", f"{below - 1:,}", f"{count:,}") for least, below, count in lengths.histogram)
    seen = "" if lengths.shards == num_shards else f" Counted in {lengths.shards:,} of {num_shards:,} shards."
    return (
        f'<figure><svg role="img" aria-label="{told}" viewBox="0 0 {total} {height + foot}" '
        f'style="max-width:{total}px">{"".join(bars)}</svg>'
        f"<figcaption>Each bar begins at the number of tokens below it: {quantiles}.{seen}</figcaption></figure>\n"
        f"<details><summary>As a table</summary>{_table(['#from', '#to', '#documents'], rows)}</details>\n"
    )


def _sources(survey: Survey) -> str:
    tokens = survey.dataset.manifest.counts.tokens
    rows = (
        (
            _name(source["source"]),
            _text(source["format"]),
            f"{source['documents']:,}",
            f"{source['rejected']:,}",
            f"{source['tokens']:,}",
            f"{source['tokens'] / tokens:.1%}",
        )
        for source in survey.sources
    )
    heads = ["file", "format", "#documents", "#rejected", "#tokens", "#share"]
    shown = _table(heads, rows)
    left = survey.num_sources - len(survey.sources)
    return shown + (
        f"<p>And {left:,} more files; <code>sources.parquet</code> lists all.</p>\n" if left else ""
    )


def _rejects(survey: Survey) -> str:
    manifest = survey.dataset.manifest
    if not manifest.rejects:
        return f"<p>None: all {manifest.counts.rows:,} rows are documents.</p>\n"
    ordered = sorted(manifest.rejects.items(), key=lambda entry: (-entry[1], entry[0]))
    rows = (
        (
            f"<code>{_text(reason)}</code>",
            "a filter" if was_asked_for(reason) else "the input",
            f"{count:,}",
            f"{count / manifest.counts.rows:.2%}",
        )
        for reason, count in ordered
    )
    return (
        _table(["reason", "because of", "#rows", "#of all rows"], rows)
        + f"<p>{manifest.counts.rows:,} rows are {manifest.counts.documents:,} documents and "
        f"{manifest.counts.rejected:,} rejected; <code>rejects.parquet</code> names each with its file and row.</p>\n"
    )


def _documents(documents: Sequence[Document]) -> str:
    return (
        "<p>Chosen at random, decoded from their tokens. They are what was found, not what is endorsed.</p>\n"
        + "\n".join(_document(document) for document in documents)
        + "\n"
    )


def _document(document: Document) -> str:
    lineage = document.lineage
    where = place(lineage["row_group"], lineage["row"], lineage["byte_offset"])
    named = "" if lineage["document_id"] is None else f", id {_name(lineage['document_id'])}"
    text = escape(printable(document.text[:_SHOWN_CHARACTERS], lines=True))
    more = len(document.text) - _SHOWN_CHARACTERS
    rest = f'<p class="more">and {more:,} more characters</p>' if more > 0 else ""
    return (
        f"<article><h3>Document {document.number:,}{named}</h3><p>{lineage['tokens']:,} tokens, from "
        f'{_name(lineage["source"])}, {where}</p><pre dir="auto" tabindex="0">{text}</pre>{rest}</article>'
    )


def _making(survey: Survey) -> str:
    manifest = survey.dataset.manifest
    identity = manifest.tokenizer
    change = {name: value for name, value in manifest.change.items() if name != "kind"}
    return (
        _facts(
            [
                ("tokenizer", f"{_text(identity.name)}, {_text(identity.library)}"),
                ("its file", f"SHA-256 <code>{_text(identity.sha256)}</code>"),
                ("vocabulary", f"{identity.vocab_size:,} ids, stored as {_text(manifest.dtype)}"),
                ("before each document", _token(identity.bos, identity.bos_id)),
                ("after each document", _token(identity.eos, identity.eos_id)),
                ("text that spells a special token", _text(identity.special_tokens)),
                ("compression", _text(manifest.compression)),
                (
                    "inputs",
                    f"{manifest.inputs.get('files', 0):,} files, {_bytes(manifest.inputs.get('bytes', 0))}",
                ),
            ]
        )
        + "<h3>Configuration</h3>"
        + _facts(
            (f"<code>{_text(name)}</code>", _json(value)) for name, value in sorted(manifest.config.items())
        )
        + (
            f"<h3>Change ({_text(manifest.change.get('kind', ''))})</h3>"
            + _facts((f"<code>{_text(name)}</code>", _json(value)) for name, value in sorted(change.items()))
            if change
            else ""
        )
        + "<h3>Software that shows in the bytes</h3>"
        + _facts((_text(name), _text(version)) for name, version in sorted(manifest.software.items()))
    )


def _token(token: str | None, token_id: int | None) -> str:
    return "nothing" if token is None else f"<code>{_text(token)}</code> ({token_id})"


def _json(value: Any) -> str:
    return f"<code>{_text(json.dumps(value, sort_keys=True, ensure_ascii=False))}</code>"


def _files(survey: Survey) -> str:
    manifest = survey.dataset.manifest
    rows = (
        (_text(name), f"{entry.bytes:,}", f"<code>{_text(entry.sha256)}</code>")
        for name, entry in sorted(manifest.files.items())
    )
    parent = "none" if manifest.parent is None else f"<code>{_text(manifest.parent)}</code>"
    return _facts(
        [
            ("version (the hash of manifest.json)", f"<code>{manifest.hash}</code>"),
            ("content (what a plan refers to)", f"<code>{_text(manifest.content_hash)}</code>"),
            ("shard table", f"<code>{_text(manifest.shards_digest)}</code>"),
            ("grew from", parent),
        ]
    ) + _table(["file", "#bytes", "SHA-256"], rows)


def _use(survey: Survey) -> str:
    version = survey.dataset.manifest.hash[:16]
    return (
        "<p>Where the dataset lies in <code>DATASET</code>:</p><pre>"
        f"headrace verify DATASET@{version}      # every byte against its hash\n"
        f"headrace inspect DATASET@{version} --sample 5\n"
        f"headrace plan DATASET@{version} --sequence-length 2048 --out plan.json\n"
        "torchrun --nproc_per_node 8 -m headrace train run.yaml</pre>"
        "<p>Shards are MDS: <code>streaming.StreamingDataset</code> of mosaicml-streaming opens the newest version as it is.</p>\n"
    )


def _short(number: int) -> str:
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
        if number >= size:
            return f"{number // size}{unit}"
    return str(number)


def _bytes(number: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:,.2f} {unit}"
    return f"{number:,} bytes"
