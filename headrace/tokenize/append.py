"""Add sources to a dataset: what must agree with what is there, and what must not be there yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.versions import split_version
from headrace.errors import MismatchError, UsageError
from headrace.manifests.dataset import DatasetManifest
from headrace.manifests.parquet import read_table
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.journal import differences
from headrace.tokenize.publish import SOURCES, Job

_FRAME: Final = ("sha256", "vocab_size", "bos", "bos_id", "eos", "eos_id", "special_tokens")
# Cut from the inputs at hand, so it differs between two appends and decides nothing about the tokens.
_OF_ONE_JOB: Final = ("unit_bytes",)
_TAKEN_OVER: Final = ("documents", "text_column", "id_column", "tfrecord_payload", "max_document_bytes")
_SHOWN: Final = 5


def open_newest(uri: str) -> Dataset:
    """The dataset that is to be changed. Raises UsageError if `uri` names one of its versions; else as `Dataset.open`."""
    place, version = split_version(uri)
    if version is not None:
        raise UsageError(
            f"{uri}: only the newest version can be changed, into a new one; give {place} without the version"
        )
    return Dataset.open(uri)


def config_onto(manifest: DatasetManifest, given: Mapping[str, Any]) -> TokenizeConfig:
    """The configuration with which the dataset was made, but for what is given now (which then has to agree).

    Filters are not taken over: what they name (a function, texts to keep out) is to be given again.
    """
    there = {name: value for name in _TAKEN_OVER if (value := manifest.config.get(name)) is not None}
    tokenizer = manifest.tokenizer
    there |= {
        "bos": tokenizer.bos or "none",
        "eos": tokenizer.eos or "none",
        "shard_bytes": manifest.shard_bytes,
        "compression": manifest.compression,
    }
    return TokenizeConfig(**{**there, **given})


def require_fitting(parent: Dataset, job: Job) -> None:
    """Whether the job's documents may lie beside those of `parent`.

    Raises:
        MismatchError: another tokenizer, document frame, shard size, compression or configuration, each named; or a
            source that is in the dataset already.
    """
    where = parent.store.describe()
    there = {**frame_of(parent.manifest), "config": _comparable(parent.manifest, parent.manifest.config)}
    frame = _frame(asdict(job.identity), job.dtype, job.config.compression, job.config.shard_bytes)
    here = {**frame, "config": _comparable(parent.manifest, job.resolved)}
    if told := differences(there, here):
        alike = not differences(frame_of(parent.manifest), frame)
        joined = " and join the two with `headrace merge`, to which nothing of this matters" if alike else ""
        raise MismatchError(
            f"{where}: the sources would be tokenized otherwise than what is there; nothing was changed. It differs in\n"
            f"{told}\nGive filters and --dedup as they were, and leave other options out (--onto takes them from the dataset); or "
            f"make a dataset of its own{joined}"
        )
    _require_new_sources(parent, job)


def frame_of(manifest: DatasetManifest) -> dict[str, Any]:
    """What shards must have in common to lie in one dataset."""
    return _frame(asdict(manifest.tokenizer), manifest.dtype, manifest.compression, manifest.shard_bytes)


def _frame(tokenizer: dict[str, Any], dtype: str, compression: str, shard_bytes: int) -> dict[str, Any]:
    return {
        "tokenizer": {name: tokenizer[name] for name in _FRAME},
        "dtype": dtype,
        "compression": compression,
        "shard_bytes": shard_bytes,
    }


def _comparable(parent: DatasetManifest, config: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a job decides for itself, and what in a merged dataset was never one thing."""
    left_out = {*_OF_ONE_JOB, "mixed", *parent.config.get("mixed", [])}
    return {name: value for name, value in config.items() if name not in left_out}


def _require_new_sources(parent: Dataset, job: Job) -> None:
    """A source is its name in lineage and in rejects, so two with one name could not be told apart."""
    table = read_table(parent.read(SOURCES), ["source", "fingerprint", "documents"])
    there: dict[str, tuple[str, int]] = {}
    for row in table.to_pylist():
        fingerprint, documents = row["fingerprint"], row["documents"]
        if row["source"] in there:  # taken down before, and added again since
            documents += there[row["source"]][1]
        there[row["source"]] = (fingerprint, documents)
    found = [source for source in job.sources if source.name in there]
    same = [source.name for source in found if there[source.name][0] == source.fingerprint]
    if same:
        raise MismatchError(
            f"{parent.store.describe()}: {len(same):,} of the sources are in the dataset already "
            f"({_some(same)}); their documents would be there twice. Nothing was changed: leave them out"
        )
    if other := [source.name for source in found if there[source.name][1]]:
        raise MismatchError(
            f"{parent.store.describe()}: {len(other):,} of the sources have the name of one that is in the dataset, with "
            f"other content ({_some(other)}); lineage could not tell them apart. Nothing was changed: give them under "
            "other names, or take the old ones down first, with `headrace filter --drop --where \"source = '...'\"`"
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def made_by(version: DatasetManifest, identity: Mapping[str, Any], kind: str) -> bool:
    """Whether this version is what the job of this kind with this identity publishes."""
    return version.change["kind"] == kind and not differences(identity_of(version), dict(identity))


def identity_of(version: DatasetManifest) -> dict[str, Any]:
    """The identity of the job that published it: of what an append added, not of what was there."""
    return {
        "tokenizer": asdict(version.tokenizer),
        "dtype": version.dtype,
        "compression": version.compression,
        "shard_bytes": version.shard_bytes,
        "config": version.change.get("config", version.config),
        "inputs": version.change.get("inputs", version.inputs),
        "software": version.software,
    }
