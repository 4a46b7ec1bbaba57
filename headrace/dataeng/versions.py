"""The versions of a dataset: `manifest.json` is the newest, its ancestors lie beside it under their hashes.

    manifest.json ──parent──> manifest.HASH16.json ──parent──> ... ──> the first version

Every step is checked by the hash that the later manifest names. docs/formats/dataset.md says every file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headrace.dataeng.storage import Store
from headrace.errors import DamageError, InputError, MismatchError
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.dataset import MANIFEST, DatasetManifest, archived_manifest

_REFERENCE: Final = re.compile(r"(.*[^/])@([0-9a-f]{8,64})", re.DOTALL)


def split_version(uri: str) -> tuple[str, str | None]:
    """`corpus@0123abcd` to (`corpus`, `0123abcd`): the first 8 or more digits of a version or of a content hash.

    A directory that is really called so is named with a slash behind it.
    """
    match = _REFERENCE.fullmatch(uri)
    return (match[1], match[2]) if match else (uri, None)


def tombstone(digest: str) -> str:
    """The file that says that a version was pruned: its manifest stays, the rest may be gone."""
    return f"pruned.{digest[:16]}.json"


def read_head(store: Store) -> DatasetManifest:
    """The newest version. Raises InputError if there is no dataset."""
    where = store.describe(MANIFEST)
    try:
        return DatasetManifest.from_bytes(store.read(MANIFEST), where)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{where} does not exist: the directory holds no dataset, or its tokenization has not finished; "
            "run the same `headrace tokenize` command again to finish it"
        ) from None


def history(store: Store, head: DatasetManifest) -> Iterator[DatasetManifest]:
    """`head`, its parent, and so on to the first version; one small read each.

    Raises:
        DamageError: a manifest is missing or is not the one that its child names.
    """
    manifest = head
    yield manifest
    while manifest.parent is not None:
        manifest = archived(store, manifest.parent)
        yield manifest


def archived(store: Store, digest: str) -> DatasetManifest:
    """The version with this hash, which is not the newest. Raises DamageError."""
    where = store.describe(archived_manifest(digest))
    try:
        data = store.read(archived_manifest(digest))
    except FileNotFoundError:
        raise DamageError(
            f"{where} is missing: this version and what lies before it cannot be read; restore it"
        ) from None
    if (found := sha256_hex(data)) != digest:
        raise DamageError(f"{where}: SHA-256 {found[:16]}…, its child names {digest[:16]}…; restore it")
    return DatasetManifest.from_bytes(data, where)


def find_version(store: Store, head: DatasetManifest, wanted: str) -> DatasetManifest:
    """The version whose hash or content hash begins with `wanted`; of several with that content, the newest.

    Raises:
        MismatchError: there is none, there are several, or it was pruned. Otherwise as `history`.
    """
    found: list[DatasetManifest] = []
    known: list[str] = []
    for manifest in history(store, head):
        if manifest.hash.startswith(wanted) or manifest.content_hash.startswith(wanted):
            if (
                len(wanted) == 64
            ):  # whole: nothing else can begin with it, but for a version of the same content
                found = [manifest]
                break
            found.append(manifest)
        known.append(f"\n  version {manifest.hash[:16]}, content {manifest.content_hash[:16]}")
    contents = {manifest.content_hash for manifest in found}
    if len(contents) > 1:
        raise MismatchError(
            f"{store.describe()}: several versions begin with {wanted}; give more digits. `headrace versions` lists them"
        )
    if not found:
        raise MismatchError(
            f"{store.describe()}: no version or content begins with {wanted[:16]}; the dataset has"
            + "".join(known[:8])
            + (f"\n  and {len(known) - 8} older ones" if len(known) > 8 else "")
        )
    if found[0].hash != head.hash and store.exists(tombstone(found[0].hash)):
        raise MismatchError(
            f"{store.describe()}: version {found[0].hash[:16]} was pruned, and with it what later versions do not use; "
            "restore it from a copy, or use a version that is there (`headrace versions` lists them)"
        )
    return found[0]
