from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dataeng import mds
from headrace.errors import DamageError

GOLDEN = Path(__file__).parent / "golden" / "two_documents.mds.txt"

# Lengths around the borders at which the width of the length changes.
some_lengths = st.lists(
    st.one_of(st.integers(1, 5), st.sampled_from([254, 255, 256, 257, 65_535, 65_536])),
    min_size=1,
    max_size=6,
)


def shard_of(documents: list[list[int]], dtype: str = "uint16", shard_bytes: int = 1000) -> bytes:
    flat = np.array([token for document in documents for token in document], dtype)
    return mds.encode_shard(flat, np.array([len(d) for d in documents], np.int64), shard_bytes)


def one_by_one(raw: bytes, dtype: str) -> list[list[int]]:
    """The page read literally: the slow reference."""
    num_documents = int.from_bytes(raw[:4], "little")
    offsets = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "little") for i in range(num_documents + 1)]
    documents = []
    for begin, end in itertools.pairwise(offsets):
        sample = raw[begin:end]
        assert int.from_bytes(sample[:4], "little") == len(sample) - 4
        assert sample[4] >> 2 == 1
        width = 2 ** (sample[4] & 3)
        tokens = np.frombuffer(sample[5 + width :], dtype)
        assert int.from_bytes(sample[5 : 5 + width], "little") == len(tokens)
        documents.append(tokens.tolist())
    assert offsets[-1] == len(raw)
    return documents


def test_the_golden_shard_is_written_byte_for_byte() -> None:
    fields = (line.partition("#")[0] for line in GOLDEN.read_text().splitlines())
    assert shard_of([[1, 2, 3], [65535]]) == bytes.fromhex("".join(fields))


@given(lengths=some_lengths, dtype=st.sampled_from(["uint16", "uint32"]), seed=st.integers(0, 99))
def test_every_document_reads_back_as_the_page_says(lengths: list[int], dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents = [rng.integers(0, np.iinfo(dtype).max, n, dtype, endpoint=True).tolist() for n in lengths]
    raw = shard_of(documents, dtype)
    assert one_by_one(raw, dtype) == documents
    found = mds.check_shard(raw, dtype=dtype, shard_bytes=1000, vocab_size=2**32, where="here")
    assert found.tolist() == lengths


@given(lengths=some_lengths, dtype=st.sampled_from(["uint16", "uint32"]))
def test_the_size_of_a_shard_is_known_before_it_is_written(lengths: list[int], dtype: str) -> None:
    raw = shard_of([[7] * n for n in lengths], dtype)
    samples = mds.sample_bytes(np.array(lengths, np.int64), dtype)
    assert len(raw) == mds.overhead_bytes(len(lengths), dtype, 1000) + samples.sum()


@pytest.mark.parametrize("lengths", [[], [0], [3], [1, 1, 1]])
def test_lengths_that_do_not_fit_the_tokens_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="one document or more"):
        mds.encode_shard(np.array([1, 2], np.uint16), np.array(lengths, np.int64), 1000)


def test_every_flipped_byte_is_found_or_is_a_token() -> None:
    documents = [[1, 2, 3], [9] * 300, [4]]
    raw = shard_of(documents)
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0x55
        try:
            mds.check_shard(bytes(damaged), dtype="uint16", shard_bytes=1000, vocab_size=60_000, where="here")
        except DamageError:
            continue
        # The structure cannot know which token was meant; hashes do.
        assert [len(d) for d in one_by_one(bytes(damaged), "uint16")] == [3, 300, 1]


def test_every_truncation_is_found() -> None:
    raw = shard_of([[1, 2, 3], [9] * 300])
    for end in range(len(raw)):
        with pytest.raises(DamageError):
            mds.check_shard(raw[:end], dtype="uint16", shard_bytes=1000, vocab_size=60_000, where="here")


def test_a_token_outside_the_vocabulary_is_named() -> None:
    with pytest.raises(DamageError, match="token id 512 in a vocabulary of 512"):
        mds.check_shard(
            shard_of([[511, 512]]), dtype="uint16", shard_bytes=1000, vocab_size=512, where="here"
        )


@pytest.mark.parametrize(("vocab_size", "dtype"), [(1, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_the_smallest_dtype_that_holds_the_vocabulary_is_used(vocab_size: int, dtype: str) -> None:
    assert mds.token_dtype(vocab_size) == dtype


def test_the_index_has_what_a_reader_needs_and_no_directories() -> None:
    raw = shard_of([[1]])
    digest = hashlib.sha256(raw).hexdigest()
    plain = mds.IndexEntry(name="a.mds", raw_bytes=len(raw), raw_sha256=digest, documents=1)
    zipped = mds.IndexEntry(
        name="a.mds", raw_bytes=len(raw), raw_sha256=digest, documents=1, stored=("a.mds.zstd", 5, "00")
    )
    index: dict[str, Any] = json.loads(
        mds.encode_index([plain], dtype="uint16", shard_bytes=9, compression="none")
    )
    assert index["version"] == 2
    assert index["shards"] == [
        {
            "column_encodings": ["ndarray:uint16"],
            "column_names": ["tokens"],
            "column_sizes": [None],
            "compression": None,
            "format": "mds",
            "hashes": ["sha256"],
            "raw_data": {"basename": "a.mds", "bytes": len(raw), "hashes": {"sha256": digest}},
            "samples": 1,
            "size_limit": 9,
            "version": 2,
            "zip_data": None,
        }
    ]
    index = json.loads(mds.encode_index([zipped], dtype="uint16", shard_bytes=9, compression="zstd:3"))
    assert index["shards"][0]["compression"] == "zstd:3"
    assert index["shards"][0]["zip_data"] == {
        "basename": "a.mds.zstd",
        "bytes": 5,
        "hashes": {"sha256": "00"},
    }


def test_packing_lets_go_of_its_parts() -> None:
    parts = [np.arange(3, dtype=np.uint16), np.arange(5, dtype=np.uint16)]
    lengths = np.array([3, 2, 3], np.int64)
    expected = mds.encode_shard(parts, lengths, 1 << 16)
    assert len(parts) == 2
    assert mds.shard_buffer(parts, lengths, 1 << 16).tobytes() == expected
    assert not parts


@given(some_lengths, st.data())
def test_a_shard_without_some_samples_is_the_shard_of_the_others(
    lengths: list[int], data: st.DataObject
) -> None:
    """To the byte: a takedown leaves what tokenizing only the other documents would have made."""
    documents = [[(number + at) % 1000 for at in range(length)] for number, length in enumerate(lengths)]
    keep = data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)).filter(any))
    found = mds.keep_samples(shard_of(documents), np.array(keep), "s").tobytes()
    assert found == shard_of([document for document, kept in zip(documents, keep, strict=True) if kept])


@pytest.mark.parametrize("cut", [0, 3, 10, 40, -1])
def test_of_what_is_no_shard_of_so_many_documents_nothing_is_kept(cut: int) -> None:
    raw = shard_of([[1, 2], [3]])
    with pytest.raises(DamageError, match="not a shard of 2 documents"):
        mds.keep_samples(raw[:cut], np.array([True, False]), "s")
    with pytest.raises(DamageError, match="not a shard of 3 documents"):
        mds.keep_samples(raw, np.array([True, False, True]), "s")
