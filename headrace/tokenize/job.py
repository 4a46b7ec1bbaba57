"""A job as it was asked for: everything that is known, and refused, before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mds import token_dtype
from headrace.dataeng.sources.discover import Discovered, discover
from headrace.dataeng.sources.location import is_below, open_input
from headrace.dataeng.storage import Store, redact
from headrace.dataeng.versions import split_version
from headrace.errors import UsageError
from headrace.tokenize.append import open_newest
from headrace.tokenize.config import ALGORITHM_VERSION, Execution, TokenizeConfig
from headrace.tokenize.dedup import signatures
from headrace.tokenize.definition import to_definition
from headrace.tokenize.filters.prepare import Prepared, prepare
from headrace.tokenize.heap import return_freed_memory
from headrace.tokenize.publish import TOKENIZER, Job, inputs_of
from headrace.tokenize.software import software
from headrace.tokenize.tokenizers import identify
from headrace.tokenize.units import Unit, plan_units, unit_bytes

_MAX_SLICE_BYTES = 4 << 20


def read_job(
    places: Sequence[str],
    tokenizer: str | None,
    out: str,
    config: TokenizeConfig,
    execution: Execution,
    onto: bool,
) -> tuple[Store, Job, Discovered]:
    """Everything that is known before any work: where it goes, what it is, what is in the sources."""
    store = Store(out)
    for place in places:
        if is_below(out, place):
            raise UsageError(
                f"--out {store.describe()} lies in the source {redact(place)}: the next run would take its own shards for "
                "sources. Give a directory outside of it"
            )
    if store.is_local and store.local_root.exists() and not store.local_root.is_dir():
        raise UsageError(
            f"--out {store.describe()}: a file is there; give a directory, which need not exist yet"
        )
    if not onto and split_version(out)[1] is not None:
        raise UsageError(
            f"--out {store.describe()}: a name that ends like a version of another dataset; leave the @ out of it"
        )
    parent = open_newest(out) if onto else None
    tokenizer_bytes = _definition(tokenizer, config.tokenizer_recipe, parent)
    named = TOKENIZER if tokenizer is None else redact(tokenizer)
    identity = identify(tokenizer_bytes, named, bos=config.bos, eos=config.eos)
    return_freed_memory()  # this process will wait for others as long as the job takes
    found = discover(
        places,
        text_column=config.text_column,
        id_column=config.id_column,
        whole_files=config.documents == "files",
        raw_records=config.tfrecord_payload == "text",
        max_document_bytes=config.max_document_bytes,
        slice_bytes=min(_MAX_SLICE_BYTES, 2 * config.shard_bytes),
        allow_damage=execution.quarantine_damage,
    )
    filters = prepare(config.filters)
    job = Job(
        sources=found.sources,
        tokenizer=tokenizer_bytes,
        identity=identity,
        config=config,
        dtype=token_dtype(identity.vocab_size),
        filters=filters,
        resolved=_resolved(config, found, filters),
        inputs=inputs_of([[s.name, s.format, s.size, s.fingerprint] for s in found.sources]),
        software=software() | signatures.software(config.dedup),
        parent=parent,
    )
    return store, job, found


def _definition(tokenizer: str | None, recipe: str | None, parent: Dataset | None) -> bytes:
    if tokenizer is not None:
        return to_definition(
            _bytes_of(tokenizer),
            redact(tokenizer),
            recipe=None if recipe is None else (_bytes_of(recipe), redact(recipe)),
        )
    if parent is None:
        raise UsageError(
            "--tokenizer is missing: a tokenizer.json, a tiktoken rank file or a SentencePiece model"
        )
    if recipe is not None:
        raise UsageError("--tokenizer-recipe goes with --tokenizer; the dataset has a tokenizer of its own")
    return parent.read(TOKENIZER)


def _bytes_of(uri: str) -> bytes:
    with open_input(uri) as file:
        return file.read()


def _resolved(config: TokenizeConfig, found: Discovered, filters: Prepared) -> dict[str, Any]:
    described = filters.described()
    return {
        "algorithm": ALGORITHM_VERSION,
        "documents": config.documents,
        "text_column": found.columns.text or None,
        "id_column": found.columns.id,
        "tfrecord_payload": config.tfrecord_payload,
        "unit_bytes": unit_bytes(found.sources, config.shard_bytes),
        "max_document_bytes": config.max_document_bytes,
        **({"filters": described} if described else {}),
        **({"dedup": config.dedup.described()} if config.dedup else {}),
    }


def identity_for(job: Job) -> dict[str, Any]:
    return {
        "tokenizer": asdict(job.identity),
        "dtype": job.dtype,
        "compression": job.config.compression,
        "shard_bytes": job.config.shard_bytes,
        "config": job.resolved,
        "inputs": job.inputs,
        "software": job.software,
    }


def units_of(job: Job) -> list[Unit]:
    first = 0 if job.parent is None else job.parent.manifest.next_unit
    return plan_units(job.sources, job.resolved["unit_bytes"], first=first)
