"""Write token shards in MDS, the file format of mosaicml-streaming. `docs/formats/mds.md` says every byte.

    raw shard = num_samples u32 | offsets u32[num_samples + 1] | config JSON | samples
    sample    = datum_bytes u32 | ndim and width u8 | num_tokens u8, u16 or u32 | tokens

One document is one sample with one column, `tokens`. Everything here works on a whole shard at once: the documents
of a shard arrive as one flat array of tokens and an array of lengths, and no Python runs per document or per token.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.errors import DamageError

INDEX: Final = "index.json"
COLUMN: Final = "tokens"
FORMAT_VERSION: Final = 2
MAX_RAW_BYTES: Final = 2**32 - 1  # offsets are uint32, and the last one is the size of the file

# What `kernels.check` finds, in words.
_FAULTS: Final = {
    1: "the table of offsets does not ascend to the end of the file",
    2: "a sample's size differs from the table of offsets",
    3: "a sample is not an array of one axis",
    4: "a sample is not a whole number of tokens",
    5: "a sample's number of tokens is wrong",
}

# One axis, so the byte is `1 << 2 | code`, where 2**code is the width of the length that follows.
HEAD_BYTES: Final = 5  # datum_bytes u32 and the axis byte

Tokens: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]  # uint16 or uint32
Lengths: TypeAlias = npt.NDArray[np.int64]


def token_dtype(vocab_size: int) -> str:
    """The smallest of uint16 and uint32 that holds every id below `vocab_size`."""
    return "uint16" if vocab_size <= 2**16 else "uint32"


def config_bytes(dtype: str, shard_bytes: int) -> bytes:
    """The JSON inside every shard. It does not say how the file is compressed: it lies under the compression."""
    return json.dumps(_config(dtype, shard_bytes, compression="none"), sort_keys=True).encode()


def length_width(lengths: Lengths) -> Lengths:
    """Bytes in which each sample writes its number of tokens: 1, 2 or 4."""
    return np.where(lengths < 2**8, 1, np.where(lengths < 2**16, 2, 4)).astype(np.int64)


def sample_bytes(lengths: Lengths, dtype: str) -> Lengths:
    """Size of each sample in the shard, without its 4-byte entry in the offset table."""
    return HEAD_BYTES + length_width(lengths) + lengths * np.dtype(dtype).itemsize


def overhead_bytes(num_documents: int, dtype: str, shard_bytes: int) -> int:
    """Size of everything in a raw shard that is not a sample."""
    return 4 + 4 * (num_documents + 1) + len(config_bytes(dtype, shard_bytes))


def encode_shard(tokens: Tokens | Sequence[Tokens], lengths: Lengths, shard_bytes: int) -> bytes:
    """One raw shard.

    Args:
        tokens: uint16 or uint32 [sum of lengths], the documents one after another; or the same in several arrays,
            each of whole documents.
        lengths: int64 [documents], each at least 1.
        shard_bytes: what the caller aimed at; recorded in the shard, not enforced here.
    """
    parts = [tokens] if isinstance(tokens, np.ndarray) else list(tokens)
    return shard_buffer(parts, lengths, shard_bytes).tobytes()


def shard_buffer(parts: list[Tokens], lengths: Lengths, shard_bytes: int) -> npt.NDArray[np.uint8]:
    """`encode_shard`, without a copy at the end, of `parts` that it lets go of one by one: they are as large as the shard."""
    from headrace.kernels.pack import write_samples

    num_documents = len(lengths)
    if num_documents == 0 or int(lengths.min()) < 1 or int(lengths.sum()) != sum(map(len, parts)):
        raise ValueError(
            "a shard holds one document or more, each of one token or more, and exactly their tokens"
        )
    dtype = parts[0].dtype.name
    config = config_bytes(dtype, shard_bytes)
    offsets = np.empty(num_documents + 1, np.int64)
    offsets[0] = 4 + 4 * (num_documents + 1) + len(config)
    np.cumsum(sample_bytes(lengths, dtype), out=offsets[1:])
    offsets[1:] += offsets[0]
    if offsets[-1] > MAX_RAW_BYTES:
        raise ValueError(f"a shard of {int(offsets[-1]):,} bytes does not fit the 32-bit offsets of MDS")

    file = np.empty(int(offsets[-1]), np.uint8)
    file[:4] = np.array([num_documents], "<u4").view(np.uint8)
    file[4 : offsets[0] - len(config)] = offsets.astype("<u4").view(np.uint8)
    file[offsets[0] - len(config) : offsets[0]] = np.frombuffer(config, np.uint8)

    ends = np.cumsum(lengths)
    at, first, seen = int(offsets[0]), 0, 0
    parts.reverse()
    while parts:
        part = parts.pop()
        seen += len(part)
        last = int(np.searchsorted(ends, seen, side="left")) + 1
        little_endian = np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(np.uint8)
        at = write_samples(little_endian, part.dtype.itemsize, lengths[first:last], file, at)
        first = last
    assert at == len(file), "an array of tokens does not end with a document"
    return file


def keep_samples(raw: bytes | memoryview, keep: npt.NDArray[np.bool_], where: str) -> npt.NDArray[np.uint8]:
    """The raw shard that holds only some of another one's samples, byte for byte as they were.

    Args:
        raw: an MDS shard of any columns.
        keep: bool [samples], at least one of them true.

    Raises DamageError, beginning with `where`, if `raw` is not a shard of that many samples.
    """
    data = np.frombuffer(raw, np.uint8)
    count = len(keep)
    first = 4 + 4 * (count + 1)
    offsets = data[4:first].view("<u4").astype(np.int64) if len(data) >= first else np.empty(0, np.int64)
    if (
        len(offsets) != count + 1
        or int(data[:4].view("<u4")[0]) != count
        or offsets[0] < first
        or offsets[-1] != len(data)
        or bool((np.diff(offsets) < 0).any())
    ):
        raise DamageError(
            f"{where}: not a shard of {count:,} documents; it is not as it was written, restore or rebuild it"
        )
    sizes = np.diff(offsets)[keep]
    config = data[first : offsets[0]]
    kept = np.empty(len(sizes) + 1, np.int64)
    kept[0] = 4 + 4 * (len(sizes) + 1) + len(config)
    np.cumsum(sizes, out=kept[1:])
    kept[1:] += kept[0]
    file = np.empty(int(kept[-1]), np.uint8)
    file[:4] = np.array([len(sizes)], "<u4").view(np.uint8)
    file[4 : kept[0] - len(config)] = kept.astype("<u4").view(np.uint8)
    file[kept[0] - len(config) : kept[0]] = config
    at = int(kept[0])
    edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]]).astype(np.int8)))
    for begin, end in zip(offsets[edges[::2]].tolist(), offsets[edges[1::2]].tolist(), strict=True):
        file[at : at + end - begin] = data[begin:end]
        at += end - begin
    return file


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexEntry:
    """One shard as `index.json` describes it; `stored` is (name, bytes, sha256) of the compressed file, if there is one."""

    name: str
    raw_bytes: int
    raw_sha256: str
    documents: int
    stored: tuple[str, int, str] | None = None


def encode_index(entries: Sequence[IndexEntry], *, dtype: str, shard_bytes: int, compression: str) -> bytes:
    """`index.json`, which mosaicml-streaming reads first; `compression` is "none" or "zstd:LEVEL"."""
    config = _config(dtype, shard_bytes, compression)
    shards = [
        config
        | {
            "samples": entry.documents,
            "raw_data": _file(entry.name, entry.raw_bytes, entry.raw_sha256),
            "zip_data": None if entry.stored is None else _file(*entry.stored),
        }
        for entry in entries
    ]
    return json.dumps({"shards": shards, "version": FORMAT_VERSION}, sort_keys=True).encode() + b"\n"


def check_shard(
    raw: bytes | memoryview, *, dtype: str, shard_bytes: int, vocab_size: int, where: str
) -> Lengths:
    """Hold a raw shard written by `encode_shard` to its format and return the length of each document.

    Raises DamageError, beginning with `where`, at the first field that cannot be.
    """
    from headrace.kernels.check import FINE, check_samples

    def require(condition: bool, problem: str) -> None:
        if not condition:
            raise DamageError(
                f"{where}: {problem}; the shard is not as it was written, restore or rebuild it"
            )

    data = np.frombuffer(raw, np.uint8)
    config = config_bytes(dtype, shard_bytes)
    require(len(data) >= 8, f"{len(data)} bytes, too short for a shard")
    num_documents = int(data[:4].view("<u4")[0])
    begin = 4 + 4 * (num_documents + 1) + len(config)
    require(
        num_documents > 0 and begin <= len(data),
        f"{num_documents:,} documents do not fit {len(data):,} bytes",
    )
    require(
        data[begin - len(config) : begin].tobytes() == config,
        "the configuration inside the shard is another one",
    )
    lengths: Lengths = np.empty(num_documents, np.int64)
    found, document, largest = check_samples(data, np.dtype(dtype).itemsize, begin, lengths)
    require(found == FINE, f"document {document:,}: {_FAULTS.get(found)}")
    require(largest < vocab_size, f"token id {largest:,} in a vocabulary of {vocab_size:,}")
    return lengths


def _config(dtype: str, shard_bytes: int, compression: str) -> dict[str, Any]:
    return {
        "column_encodings": [f"ndarray:{dtype}"],
        "column_names": [COLUMN],
        "column_sizes": [None],
        "compression": None if compression == "none" else compression,
        "format": "mds",
        "hashes": ["sha256"],
        "size_limit": shard_bytes,
        "version": FORMAT_VERSION,
    }


def _file(name: str, num_bytes: int, sha256: str) -> dict[str, Any]:
    return {"basename": name, "bytes": num_bytes, "hashes": {"sha256": sha256}}
