"""Token MDS datasets of mosaicml-streaming, whatever their columns: `index.json`, and each shard of it a `TokenFile`.

Of a sample only the column of tokens is looked at, so a pickled column beside it is passed over and never decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from headrace.convert.mosaic_shard import KNOWN_HASHES, Encoding, MosaicShard
from headrace.convert.token_file import TEXT_BYTES_A_TOKEN, fingerprint, integer_dtype
from headrace.dataeng.mds import FORMAT_VERSION, INDEX, MAX_RAW_BYTES
from headrace.dataeng.sources.base import Slice, SourceFile
from headrace.dataeng.sources.location import list_directory, open_input
from headrace.dataeng.threads import map_ahead
from headrace.dataeng.uris import redact
from headrace.errors import InputError, UsageError
from headrace.manifests.canonical import canonical_json, sha256_hex
from headrace.manifests.names import checked_name

KNOWN_COLUMNS: Final = ("tokens", "input_ids")
_MAX_INDEX_BYTES: Final = 1 << 30
_MAX_STORED_BYTES: Final = MAX_RAW_BYTES // 4 * 5  # no compression makes of anything much more than it is
_BYTES_DTYPE: Final = "int64"  # what LLM Foundry puts into a column of bytes
_COMPRESSIONS: Final = ("zstd", "gz", "br", "bz2", "snappy")
_MAX_COLUMNS: Final = 1000
_THREADS: Final = 16


def open_dataset(uri: str, first: int, *, column: str | None, dtype: str | None) -> Iterator[MosaicShard]:
    """The shards of the dataset in the directory `uri`, in order, numbered from `first`.

    column: of the tokens; by default the first of KNOWN_COLUMNS that is there. dtype: of a column of bytes.

    Raises:
        InputError: not an index of MDS shards, or a name in it that leaves the directory.
        UsageError: no such column, with those that there are.
    """
    where = redact(f"{uri}/{INDEX}")
    entries = _entries(uri, where)
    # Once: a shard may lie there packed, unpacked or both, and asking for each is a request each.
    present = {path.removeprefix(f"{uri}/") for path in list_directory(uri) or []}

    def shard(number: int) -> MosaicShard:
        name = f"{where}: shard {number:,}"
        return _shard(uri, name, entries[number], first + number, column, dtype, present)

    # A shard without a hash in its index is opened for its fingerprint.
    return map_ahead(shard, range(len(entries)), threads=_THREADS, ahead=4 * _THREADS, name="index")


def _entries(uri: str, where: str) -> list[Any]:
    with open_input(f"{uri}/{INDEX}") as file:
        data = file.read(_MAX_INDEX_BYTES + 1)
    try:
        if len(data) > _MAX_INDEX_BYTES:
            raise ValueError
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not JSON of at most {_MAX_INDEX_BYTES:,} bytes") from None
    shards = value.get("shards") if isinstance(value, dict) else None
    if not isinstance(shards, list) or value.get("version") != FORMAT_VERSION or not shards:
        raise InputError(
            f"{where}: not an index of mosaicml-streaming of version {FORMAT_VERSION} with a shard or more"
        )
    return shards


def _shard(
    uri: str,
    where: str,
    entry: Any,
    number: int,
    column: str | None,
    dtype: str | None,
    present: Collection[str],
) -> MosaicShard:
    try:
        if entry["format"] != "mds" or entry["version"] != FORMAT_VERSION:
            raise InputError(
                f"{where} is of format {str(entry['format'])[:40]!r}; only MDS shards hold tokens that can be adopted"
            )
        names, encodings, sizes = (entry[key] for key in ("column_names", "column_encodings", "column_sizes"))
        raw, zipped, samples = entry["raw_data"], entry["zip_data"], entry["samples"]
        compression = entry["compression"]
        _require_shape(names, encodings, sizes, samples, raw)
        name, stored, packed = _stored(raw, zipped, compression, where, present)
        checked_name(name, where)
        hashes = {kind: text for kind, text in stored["hashes"].items() if kind in KNOWN_HASHES}
        size, raw_bytes = stored["bytes"], raw["bytes"]
        if (
            type(size) is not int
            or not 1 <= size <= _MAX_STORED_BYTES
            or not all(isinstance(text, str) for text in hashes.values())
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{where} is not described as mosaicml-streaming does; the index is refused"
        ) from None
    index = _column_of(names, column, where)
    path = f"{uri}/{name}"
    told = sha256_hex(canonical_json({"mds": name, "bytes": size, "hashes": hashes, "samples": samples}))
    return MosaicShard(
        source=SourceFile(
            uri=path,
            name=redact(path),
            format="mds",
            codec=packed,
            size=size,
            fingerprint=told if hashes else fingerprint("mds", path),
            num_rows=samples,
            slices=(
                Slice(
                    file=number,
                    num_rows=samples,
                    text_bytes=raw_bytes // 4 * TEXT_BYTES_A_TOKEN,
                ),
            ),
        ),
        raw_bytes=raw_bytes,
        hashes=tuple(sorted(hashes.items())),
        encoding=_encoding(encodings[index], names[index], dtype, where),
        column=index,
        sizes=tuple(size or 0 for size in sizes),
    )


def _require_shape(names: Any, encodings: Any, sizes: Any, samples: Any, raw: Any) -> None:
    """Raises ValueError for what no writer wrote."""
    fine = (
        all(type(columns) is list for columns in (names, encodings, sizes))
        and 1 <= len(names) == len(encodings) == len(sizes) <= _MAX_COLUMNS
        and all(isinstance(text, str) for text in (*names, *encodings))
        and all(size is None or (type(size) is int and 0 <= size <= MAX_RAW_BYTES) for size in sizes)
        and type(samples) is int
        and type(raw["bytes"]) is int
        and 8 + 4 * samples <= raw["bytes"] <= MAX_RAW_BYTES
        and samples >= 1
    )
    if not fine:
        raise ValueError


def _stored(
    raw: Any, zipped: Any, compression: Any, where: str, present: Collection[str]
) -> tuple[str, Any, str | None]:
    """Which of a shard's two files is there: its name, its entry, and how it is packed."""
    if zipped is None:
        return raw["basename"], raw, None
    kind = str(compression).partition(":")[0]
    if kind not in _COMPRESSIONS:
        raise InputError(
            f"{where} is compressed by {kind[:40]!r}; expected one of {', '.join(_COMPRESSIONS)}"
        )
    packed, plain = (checked_name(each["basename"], where) for each in (zipped, raw))
    if packed in present or plain not in present:
        return packed, zipped, kind
    return plain, raw, None  # a cache of mosaicml-streaming keeps what it unpacked


def _column_of(names: Sequence[str], column: str | None, where: str) -> int:
    wanted = KNOWN_COLUMNS if column is None else (column,)
    for name in wanted:
        if name in names:
            return names.index(name)
    raise UsageError(
        f"{where} has no column {' or '.join(map(repr, wanted))}; it has {', '.join(repr(n[:40]) for n in names[:20])}. "
        "Name the one with token ids: --column NAME"
    )


def _encoding(text: str, column: str, dtype: str | None, where: str) -> Encoding:
    """How a column of tokens is written. Raises InputError for one of something else."""
    if text == "bytes":
        return Encoding(dtype=integer_dtype(dtype or _BYTES_DTYPE, where), header=False)
    match = re.fullmatch(r"ndarray(?::([a-z]+\d+)(?::(\d{1,10}))?)?", text)
    if match is None:
        raise InputError(
            f"{where}: column {column[:40]!r} is encoded as {text[:40]!r}; token ids are `bytes` or an `ndarray` of one axis. "
            "Name another with --column"
        )
    found, length = match.groups()
    if found is not None:
        integer_dtype(found, where)
    return Encoding(dtype=found, header=length is None)
