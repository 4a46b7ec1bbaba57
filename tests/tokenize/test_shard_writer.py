from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataeng import mds
from headrace.dataeng.lineage import lineage_rows, read_lineage
from headrace.dataeng.storage import Store
from headrace.manifests.canonical import sha256_hex
from headrace.manifests.shard_table import ShardRow
from headrace.tokenize.shard_check import unpack
from headrace.tokenize.shard_writer import ShardWriter

SHARD_BYTES = 1_000


def lineage_of(lengths: list[int], first: int = 0) -> Any:
    rows = np.arange(first, first + len(lengths))
    return lineage_rows(
        source="a",
        row_group=None,
        row=rows,
        byte_offset=None,
        document_id=pa.array([f"d{row}" for row in rows]),
        text_bytes=np.ones(len(lengths), np.int64),
        tokens=np.array(lengths, np.int64),
        text_hash=pa.array([bytes(16)] * len(lengths), pa.binary(16)),
    )


def write(out: Path, batches: list[list[int]], *, zstd_level: int | None = None) -> list[ShardRow]:
    first = 0
    with ShardWriter(Store(out), 7, dtype="uint16", shard_bytes=SHARD_BYTES, zstd_level=zstd_level) as writer:
        for lengths in batches:
            tokens = np.concatenate([np.full(n, first + i, np.uint16) for i, n in enumerate(lengths)])
            writer.add(tokens, np.array(lengths, np.int64), lineage_of(lengths, first))
            first += len(lengths)
        return writer.finish()


def capacity(num_documents: int) -> int:
    """Tokens that fit a shard of `num_documents` documents, 256 tokens or more each."""
    room = SHARD_BYTES - mds.overhead_bytes(num_documents, "uint16", SHARD_BYTES) - 7 * num_documents
    return room // 2


@given(
    batches=st.lists(st.lists(st.integers(1, 600), min_size=1, max_size=12), min_size=1, max_size=4),
)
@settings(max_examples=30, deadline=None)
def test_documents_stay_in_order_and_shards_close_when_the_next_would_not_fit(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
) -> None:
    out = tmp_path_factory.mktemp("shards")
    rows = write(out, batches)
    lengths = [n for batch in batches for n in batch]
    seen = 0
    for number, row in enumerate(rows):
        assert row.name == f"shard.000007-{number:03d}.mds"
        raw = (out / row.name).read_bytes()
        assert (len(raw), sha256_hex(raw)) == (row.raw_bytes, row.raw_sha256)
        found = mds.check_shard(raw, dtype="uint16", shard_bytes=SHARD_BYTES, vocab_size=2**16, where="here")
        assert found.tolist() == lengths[seen : seen + row.documents]
        lineage = read_lineage((out / row.lineage).read_bytes(), "here")
        assert lineage["row"].to_pylist() == list(range(seen, seen + row.documents))
        seen += row.documents
        assert row.raw_bytes <= SHARD_BYTES or row.documents == 1
        if number + 1 < len(rows):
            following = 4 + int(mds.sample_bytes(np.array([lengths[seen]]), "uint16")[0])
            assert row.raw_bytes + following > SHARD_BYTES
    assert seen == len(lengths)


@given(cut=st.integers(1, 19))
@settings(max_examples=10, deadline=None)
def test_how_documents_arrive_does_not_change_a_byte(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    lengths = [n * 13 % 170 + 1 for n in range(20)]
    whole = write(tmp_path_factory.mktemp("whole"), [lengths])
    parts = write(tmp_path_factory.mktemp("parts"), [lengths[:cut], lengths[cut:]])
    assert whole == parts


@pytest.mark.parametrize("more", [0, 1])
def test_a_document_at_the_border_of_a_shard(tmp_path: Path, more: int) -> None:
    """One that fills a shard to the last byte, and one that is a token too long: each has its own, none is split."""
    length = capacity(1) + more
    rows = write(tmp_path, [[5, length, 5]])
    assert [row.documents for row in rows] == [1, 1, 1]
    assert rows[1].tokens == length
    assert (rows[1].raw_bytes <= SHARD_BYTES) == (more == 0)


def test_a_compressed_shard_unpacks_to_the_raw_one(tmp_path: Path) -> None:
    (plain,) = write(tmp_path / "plain", [[50, 60]])
    (packed,) = write(tmp_path / "packed", [[50, 60]], zstd_level=3)
    stored = (tmp_path / "packed" / packed.name).read_bytes()
    assert packed.name == "shard.000007-000.mds.zstd"
    assert (packed.raw_sha256, packed.lineage_sha256) == (plain.raw_sha256, plain.lineage_sha256)
    assert sha256_hex(stored) == packed.stored_sha256
    raw, trouble = unpack(stored, memoryview(bytearray(packed.raw_bytes)))
    assert (sha256_hex(raw), trouble) == (plain.raw_sha256, None)


def test_what_does_not_fit_32_bit_offsets_is_known_before_it_is_built(tmp_path: Path) -> None:
    limit = (mds.MAX_RAW_BYTES - mds.overhead_bytes(1, "uint32", SHARD_BYTES) - 9) // 4
    with ShardWriter(Store(tmp_path), 0, dtype="uint32", shard_bytes=SHARD_BYTES, zstd_level=None) as writer:
        assert writer.fits_a_shard(np.array([1, limit, limit + 1])).tolist() == [True, True, False]


def test_a_store_that_fails_behind_our_back_is_an_error_of_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_store: Store, _name: str, _data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, [[600], [600], [600]])
