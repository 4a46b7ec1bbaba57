"""A tokenized dataset's manifest: a small JSON head beside the Parquet shard table (docs/formats/dataset.md).

The head is written last; a directory without one is not a dataset. Its SHA-256 is the dataset's version.
`content_hash` is narrower: it pins the token stream and nothing else, and is what training plans refer to.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.errors import InputError
from headrace.manifests.canonical import canonical_json, parse_json_object, pretty_json, sha256_hex
from headrace.manifests.names import checked_name
from headrace.manifests.shard_table import ShardTable
from headrace.manifests.typed import build

MANIFEST = "manifest.json"
SHARDS = "shards.parquet"
FORMAT = "headrace.dataset"
VERSION = 1
_HASH16 = r"\.[0-9a-f]{16}"


def named_by_hash(name: str, digest: str) -> str:
    """`shards.parquet` to `shards.0123456789abcdef.parquet`: the name under which a version keeps a file of its own."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{digest[:16]}{dot}{ending}"


def archived_manifest(digest: str) -> str:
    """Where the manifest with this hash lies once it is not the newest."""
    return named_by_hash(MANIFEST, digest)


def plain_name(name: str) -> str:
    """The inverse of `named_by_hash`; a name without a hash stays as it is."""
    return re.sub(rf"{_HASH16}(\.[a-z]+)\Z", r"\1", name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerId:
    """Which tokenizer made the ids, and what it was told.

    sha256: of the tokenizer file, a copy of which lies in the dataset. vocab_size: one more than the largest
    id, added tokens included. bos/eos: the token put before/after every document, or None. special_tokens:
    how text that spells a special token is read; "as-text" is the only policy yet.
    """

    sha256: str
    name: str
    library: str
    vocab_size: int
    bos: str | None
    bos_id: int | None
    eos: str | None
    eos_id: int | None
    special_tokens: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """rows = documents + rejected, always (law 5). text_bytes: UTF-8 bytes of the kept documents."""

    rows: int
    documents: int
    rejected: int
    tokens: int
    text_bytes: int
    shards: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetManifest:
    """The head. `files` holds every published file but the shards, their lineage, `index.json` and the head itself.

    next_unit: the first unit number that no version of the dataset has used. change: how this version was made from its
    parent, by `kind`: "tokenize" and "merge" have none; "append" and "filter" do.
    """

    tokenizer: TokenizerId
    dtype: str
    compression: str
    shard_bytes: int
    counts: Counts
    rejects: dict[str, int]
    config: dict[str, Any]
    inputs: dict[str, Any]
    shards_digest: str
    content_hash: str
    files: dict[str, FileEntry]
    software: dict[str, str]
    next_unit: int
    change: dict[str, Any]
    parent: str | None = field(default=None)

    def to_bytes(self) -> bytes:
        return pretty_json({"format": FORMAT, "version": VERSION, **asdict(self)})

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of the bytes on disk: the dataset's version."""
        return sha256_hex(self.to_bytes())

    def stored_name(self, name: str) -> str:
        """Under which name this version keeps the file that a first version calls `name`. Raises KeyError."""
        for stored in self.files:
            if plain_name(stored) == name:
                return stored
        raise KeyError(name)

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> DatasetManifest:
        """Raises `InputError` for another format or version, missing, unknown or ill-typed entries."""
        value = parse_json_object(data, where)
        if value.pop("format", None) != FORMAT:
            raise InputError(f"{where}: not a headrace dataset manifest (no format {FORMAT!r})")
        if (version := value.pop("version", None)) != VERSION:
            raise InputError(
                f"{where}: dataset format version {version!r}; this headrace reads version {VERSION}"
            )
        if isinstance(value.get("files"), dict):
            value["files"] = {
                checked_name(name, where): build(FileEntry, entry, f"{where}: files")
                for name, entry in value["files"].items()
            }
        for name, kind in (("tokenizer", TokenizerId), ("counts", Counts)):
            if name in value:
                value[name] = build(kind, value[name], f"{where}: {name}")
        manifest = build(cls, value, where)
        manifest._check(where)
        return manifest

    def _check(self, where: str) -> None:
        if self.dtype not in ("uint16", "uint32"):
            raise InputError(f"{where}: dtype {self.dtype!r}; expected uint16 or uint32")
        counts = asdict(self.counts)
        counted = [*counts.items(), ("vocab_size", self.tokenizer.vocab_size), ("next_unit", self.next_unit)]
        counted += self.rejects.items()
        for name, count in counted:
            if count < 0:
                raise InputError(f"{where}: {name} is {count!r}; expected a count")
        for name in ("documents", "tokens", "shards"):
            if not counts[name]:
                raise InputError(
                    f"{where}: {name} is 0; no empty dataset is ever published, so it is refused"
                )
        if self.counts.rows != self.counts.documents + self.counts.rejected:
            raise InputError(
                f"{where}: {self.counts.rows:,} rows are not {self.counts.documents:,} documents + "
                f"{self.counts.rejected:,} rejected; the manifest is refused"
            )
        names = [plain_name(name) for name in self.files] if type(self.files) is dict else []
        if SHARDS not in names or len(set(names)) < len(names):
            raise InputError(f"{where}: lists no {SHARDS}, or a file twice; the manifest is refused")
        if type(self.change.get("kind")) is not str:
            raise InputError(f"{where}: change says no kind; the manifest is refused")
        mixed = self.config.get("mixed", [])
        if type(mixed) is not list or any(type(name) is not str for name in mixed):
            raise InputError(f"{where}: config.mixed is not a list of names; the manifest is refused")
        if self.parent is not None and not re.fullmatch(r"[0-9a-f]{64}", self.parent):
            raise InputError(
                f"{where}: parent {self.parent[:80]!r} is not a SHA-256; the manifest is refused"
            )


def content_hash(tokenizer: TokenizerId, dtype: str, table: ShardTable) -> str:
    """The identity of a token stream: tokenizer, document frame, dtype and the raw shards in order.

    Compressing the shards again, or writing their lineage anew, leaves it as it is.
    """
    return sha256_hex(
        canonical_json(
            {
                "tokenizer": tokenizer.sha256,
                "bos_id": tokenizer.bos_id,
                "eos_id": tokenizer.eos_id,
                "special_tokens": tokenizer.special_tokens,
                "dtype": dtype,
                "shards": table.content_digest,
            }
        )
    )
