"""A dataset as a plan sees it: a name, an identity, and the number of tokens in each shard."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.mixture import check_weight
from headrace.dataeng.storage import is_remote
from headrace.dataeng.versions import split_version
from headrace.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerKey:
    """What two datasets must share to be mixed: the tokenizer file and the frame around a document."""

    sha256: str
    vocab_size: int
    bos_id: int | None = None
    eos_id: int | None = None

    def describe(self) -> str:
        return f"tokenizer {self.sha256[:12]}…, vocabulary {self.vocab_size:,}, bos {self.bos_id}, eos {self.eos_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSource:
    """One source of a mixture.

    tokens: int64 [S], tokens in each shard. weight: its share of the samples, relative to the others.
    content_hash: 64 hexadecimal digits; uri says where the dataset lies and is not part of its identity.
    """

    name: str
    content_hash: str
    tokens: NDArray[np.int64]
    tokenizer: TokenizerKey
    weight: float = 1.0
    uri: str = ""
    dataset: Dataset | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_weight(self.weight, f"source {self.name!r}")
        if len(self.content_hash) != 64 or set(self.content_hash) - set("0123456789abcdef"):
            raise UsageError(f"source {self.name!r}: content_hash must be 64 hexadecimal digits")
        if (
            self.tokens.ndim != 1
            or self.tokens.dtype != np.int64
            or (len(self.tokens) and self.tokens.min() < 0)
        ):
            raise UsageError(f"source {self.name!r}: tokens must be int64 [shards] of counts >= 0")

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str],
        *,
        weight: float = 1.0,
        name: str | None = None,
        version: str | None = None,
    ) -> PlanSource:
        """Reads a dataset's manifest and shard table (`Dataset.open`, which says what `version` is).

        The name defaults to the last path part. The plan keeps the URI without a version: content is what it names.
        """
        uri, named = split_version(os.fspath(uri))
        if not is_remote(uri):
            uri = str(
                Path(uri).absolute()
            )  # a plan is used from other working directories than it was made in
            if split_version(uri)[1] is not None:  # the directory itself is called so
                uri += "/"
        dataset = Dataset.open(uri, version=named if version is None else version)
        tokenizer = dataset.manifest.tokenizer
        return cls(
            name=Path(uri.rstrip("/")).name if name is None else name,
            content_hash=dataset.manifest.content_hash,
            tokens=dataset.shards.tokens,
            tokenizer=TokenizerKey(
                sha256=tokenizer.sha256,
                vocab_size=tokenizer.vocab_size,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
            ),
            weight=weight,
            uri=uri,
            dataset=dataset,
        )
