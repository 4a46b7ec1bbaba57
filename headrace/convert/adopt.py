"""`adopt`: token files of other tools in, a published dataset out. Ids are copied, checked, and made as narrow as they fit.

It is a tokenization without a tokenizer: the same units, journal, shards and manifest, so whatever holds there holds
here. docs/decisions/0090-adopted-datasets.md says why the files are not read in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from headrace.convert.discover import Chosen, find
from headrace.convert.flat import Every, Separated
from headrace.convert.token_file import TokenFile
from headrace.convert.unit import AdoptUnit
from headrace.convert.vocabulary import Vocabulary
from headrace.dataeng.mds import token_dtype
from headrace.dataeng.sources.base import Columns, SourceFile
from headrace.dataeng.sources.discover import Discovered
from headrace.dataeng.sources.location import is_below
from headrace.dataeng.storage import Store
from headrace.dataeng.uris import redact
from headrace.errors import InputError, UsageError
from headrace.tokenize.config import Execution, Share, TokenizeConfig
from headrace.tokenize.journal import UnitRecord
from headrace.tokenize.passes import TaskOf
from headrace.tokenize.pipeline import Outcome, carry_out
from headrace.tokenize.publish import Job, inputs_of
from headrace.tokenize.shares import ShareOutcome, carry_out_share
from headrace.tokenize.software import software
from headrace.tokenize.units import Unit, unit_bytes

ADOPTED: Final = "adopt"  # `change.kind`
ALGORITHM_VERSION: Final = 1  # grows whenever the same files would give other bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptConfig:
    """What the files do not say themselves, and how the shards are to be; all of it decides the bytes.

    column, dtype: of tokens in MDS shards; of raw files and `.ds` without metadata. Of split_after, split_before (ids)
    and document_tokens at most one: where documents end in a file that is one run of tokens.
    """

    column: str | None = None
    dtype: str | None = None
    split_after: int | None = None
    split_before: int | None = None
    document_tokens: int | None = None
    shard_bytes: int = TokenizeConfig().shard_bytes
    compression: str = "none"

    @property
    def borders(self) -> Every | Separated | None:
        """Raises UsageError if more than one is given."""
        given = [
            name
            for name in ("split_after", "split_before", "document_tokens")
            if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise UsageError("of --split-after, --split-before and --document-tokens give one")
        if self.document_tokens is not None:
            if self.document_tokens < 1:
                raise UsageError(f"--document-tokens {self.document_tokens}: expected 1 or more")
            return Every(self.document_tokens)
        if self.split_after is not None:
            return Separated(self.split_after)
        return None if self.split_before is None else Separated(self.split_before, before=True)


def adopt(
    places: Sequence[str],
    vocabulary: Vocabulary,
    out: str,
    config: AdoptConfig,
    execution: Execution,
    *,
    by_shares: bool = False,
) -> Outcome:
    """Makes the dataset `out` of token files: directories of MDS, Megatron prefixes, `.ds`, `.npy`, raw files.

    by_shares: publishes what `adopt_share` did; IncompleteError if a unit is missing.

    Raises:
        UsageError, InputError: before any work, for what is no token file or does not say enough; later, for ids that are
            none of the tokenizer's.
        DamageError: a file is not what its own index says.
        Otherwise as `headrace.tokenize.pipeline.tokenize`.
    """
    store, job, found, task = _read(places, vocabulary, out, config)
    return carry_out(store, job, found, execution, task, by_shares=by_shares)


def adopt_share(
    places: Sequence[str],
    vocabulary: Vocabulary,
    out: str,
    config: AdoptConfig,
    execution: Execution,
    *,
    share: Share,
) -> ShareOutcome:
    """Does the units of one share and publishes nothing; shares may run at the same time, anywhere. Raises as `adopt`."""
    store, job, found, task = _read(places, vocabulary, out, config)
    return carry_out_share(store, job, found, execution, share, task)


def _read(
    places: Sequence[str], vocabulary: Vocabulary, out: str, config: AdoptConfig
) -> tuple[Store, Job, Discovered, TaskOf]:
    """Everything that is known before any work."""
    for place in places:
        if is_below(out, place):
            raise UsageError(
                f"--out {redact(out)} lies in {redact(place)}, which is to be adopted; give a directory outside of it"
            )
    files = find(places, Chosen(column=config.column, dtype=config.dtype, borders=config.borders))
    sources = tuple(file.source for file in files)
    _require_different(sources)
    options = TokenizeConfig(shard_bytes=config.shard_bytes, compression=config.compression, eos="none")
    job = Job(
        sources=sources,
        tokenizer=vocabulary.definition,
        identity=vocabulary.identity,
        config=options,
        dtype=token_dtype(vocabulary.identity.vocab_size),
        resolved=_resolved(config, sources),
        inputs=inputs_of([[s.name, s.format, s.size, s.fingerprint] for s in sources]),
        software=software(),
        begins_as=ADOPTED,
    )
    found = Discovered(sources=sources, columns=Columns(text=""), ignored=())
    return Store(out), job, found, partial(_task, files)


def _task(
    files: Sequence[TokenFile], *, unit: Unit, sources: dict[int, SourceFile], earlier: UnitRecord | None
) -> AdoptUnit:
    return AdoptUnit(
        unit=unit, sources=sources, files={file: files[file] for file in sources}, earlier=earlier
    )


def _resolved(config: AdoptConfig, sources: Sequence[SourceFile]) -> dict[str, Any]:
    return {
        "algorithm": ALGORITHM_VERSION,
        "column": config.column,
        "dtype": config.dtype,
        "split_after": config.split_after,
        "split_before": config.split_before,
        "document_tokens": config.document_tokens,
        "unit_bytes": unit_bytes(sources, config.shard_bytes),
    }


def _require_different(sources: Sequence[SourceFile]) -> None:
    """A source is its name in lineage, and documents that are there twice would be trained on twice."""
    seen: set[str] = set()
    for source in sources:
        if source.name in seen:
            raise InputError(f"{source.name} is given twice; its documents would be there twice")
        seen.add(source.name)
