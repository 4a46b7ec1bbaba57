import json
from pathlib import Path

import pytest

from headrace.errors import InputError
from headrace.manifests.dataset import MANIFEST, DatasetManifest, named_by_hash, plain_name
from tests.datasets import write_dataset

SHARDS = [[[1, 2, 3], [4]], [[5, 6]]]


@pytest.fixture
def manifest_bytes(tmp_path: Path) -> bytes:
    return (write_dataset(tmp_path, SHARDS) / MANIFEST).read_bytes()


def test_reading_and_writing_is_the_identity(manifest_bytes: bytes) -> None:
    manifest = DatasetManifest.from_bytes(manifest_bytes, "m")
    assert manifest.to_bytes() == manifest_bytes
    assert manifest.hash == DatasetManifest.from_bytes(manifest.to_bytes(), "m").hash


def test_compression_changes_the_version_but_not_the_content(tmp_path: Path) -> None:
    raw, zstd = (
        DatasetManifest.from_bytes(
            (write_dataset(tmp_path / c, SHARDS, compression=c) / MANIFEST).read_bytes(), "m"
        )
        for c in ("none", "zstd")
    )
    assert raw.hash != zstd.hash
    assert raw.content_hash == zstd.content_hash


def test_law_1_shards_swapped_at_equal_size_are_another_content(tmp_path: Path) -> None:
    """Case B30."""
    a, b = (
        DatasetManifest.from_bytes((write_dataset(tmp_path / str(i), s) / MANIFEST).read_bytes(), "m")
        for i, s in enumerate([[[[1, 2]], [[3, 4]]], [[[3, 4]], [[1, 2]]]])
    )
    assert a.content_hash != b.content_hash


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", 2, "version 2"),
        ("format", "x", "not a headrace dataset"),
        ("dtype", "int64", "dtype"),
        ("counts.documents", 7, "are not 7 documents"),
        ("counts.tokens", -1, "tokens is -1"),
        ("counts.tokens", 1.5, "tokens is 1.5"),
        ("counts.tokens", True, "tokens is True"),
        ("counts.tokens", 0, "tokens is 0"),
        ("counts.rows", 2**63, "rows is 9223372036854775808"),
        ("rejects", [], "rejects is"),
        ("rejects", {"null": -1}, "null is -1"),
        ("rejects", {"tokens": -1}, "tokens is -1"),
        ("files", [], r"lists no shards\.parquet"),
        ("shard_bytes", "x", "shard_bytes is 'x'"),
        ("compression", None, "compression is None"),
        ("tokenizer.bos_id", 1.0, "bos_id is 1.0"),
        ("software", {"x": 1}, "software is"),
        ("content_hash", 7, "content_hash is 7"),
        ("counts", [], "expected an object"),
        ("files", {"../x": {"bytes": 1, "sha256": ""}}, "plain file name"),
        ("files", {}, r"lists no shards\.parquet"),
        ("tokenizer.more", 1, "unknown entries"),
        ("surprise", 1, "unknown entries"),
        ("next_unit", -1, "next_unit is -1"),
        ("change", [], "change is"),
        ("change", {"kind": 1}, "change says no kind"),
        ("config", {"mixed": 1}, "config.mixed is not a list"),
        ("config", {"mixed": [[]]}, "config.mixed is not a list"),
        ("parent", "0" * 63, "not a SHA-256"),
        ("parent", 1, "parent is 1"),
        (
            "files",
            {
                name: {"bytes": 1, "sha256": ""}
                for name in ("shards.parquet", "shards.0123456789abcdef.parquet")
            },
            "a file twice",
        ),
    ],
)
def test_an_altered_head_is_refused_with_its_reason(
    manifest_bytes: bytes, path: str, value: object, message: str
) -> None:
    document = json.loads(manifest_bytes)
    *parents, last = path.split(".")
    target = document
    for parent in parents:
        target = target[parent]
    target[last] = value
    with pytest.raises(InputError, match=message):
        DatasetManifest.from_bytes(json.dumps(document).encode(), "m")


@pytest.mark.parametrize("name", ["shards.parquet", "manifest.json"])
def test_a_name_with_a_hash_leads_back_to_the_plain_one(name: str) -> None:
    named = named_by_hash(name, "0123456789abcdef" * 4)
    stem, ending = name.split(".")
    assert named == f"{stem}.0123456789abcdef.{ending}"
    assert plain_name(named) == name
    assert plain_name(name) == name
