"""What Parquet and Arrow files share: kinds of columns, paths into structs, and columns as checked texts and ids.

A path such as `data.text` is the column of that very name, or else the field `text` of the struct column `data`. Lists
and maps are not looked into: which of their elements would be the document?
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BLANK,
    EMPTY,
    NOT_UTF8,
    NULL,
    TOO_LARGE,
    Batch,
    Columns,
    is_utf8,
)

# What Arrow raises for bytes that are not what they should be; it has no narrower class for it.
ARROW_ERRORS: Final = (pa.ArrowException, OSError, ValueError, NotImplementedError)
_SHARED: Final = "a name that two columns share"
_MAX_DEPTH: Final = 32


def kinds(schema: Any) -> dict[str, str]:
    """Kind by name, or by path below structs: "text", "binary", "integer", "null", or a type in words."""
    found: dict[str, str] = {}
    nested: dict[str, str] = {}
    for column in schema:
        found[column.name] = _SHARED if column.name in found else kind_of(column.type)
        for path, kind in _below(column.name, column.type):
            nested[path] = _SHARED if path in nested else kind
    return {**found, **{path: kind for path, kind in nested.items() if path not in found}}


def _below(path: str, kind: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if not pa.types.is_struct(kind) or depth == _MAX_DEPTH:
        return
    for inner in kind:
        yield f"{path}.{inner.name}", kind_of(inner.type)
        yield from _below(f"{path}.{inner.name}", inner.type, depth + 1)


def kind_of(kind: Any) -> str:
    """The sort of a column, as `discover` compares them; a type headrace cannot use is named in words."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "binary"
    if types.is_integer(kind):
        return "integer"
    return "null" if types.is_null(kind) else str(kind)[:80]


def path_in(schema: Any, name: str) -> list[str]:
    """The names that lead to a column: one, or those of the structs around it first."""
    if name in schema.names:
        return [name]
    for end in range(len(name) - 1, 0, -1):
        outer, inner = name[:end], name[end + 1 :]
        if name[end] == "." and outer in schema.names and pa.types.is_struct(schema.field(outer).type):
            return [outer, *path_in(pa.schema(list(schema.field(outer).type)), inner)]
    raise KeyError(name)


def column_of(batch: Any, name: str) -> Any:
    """The column; null where a struct around it is."""
    first, *others = path_in(batch.schema, name)
    column = batch.column(first)
    for inner in others:
        column.validate()
        column = column.flatten()[column.type.get_field_index(inner)]
    return column


def bounded(batch: Any, text: str) -> Iterator[Any]:
    """The rows of a record batch in pieces: rows that share the entries of a dictionary are copies in a Batch, and no
    size in the file bounds how many bytes those are.
    """
    column = column_of(batch, text)
    step = batch.num_rows
    if pa.types.is_dictionary(column.type) and len(column.dictionary):
        longest = pc.max(pc.binary_length(_as_binary(column.dictionary))).as_py() or 0
        step = max(1, BATCH_BYTES // max(longest, 1))
    for first in range(0, batch.num_rows, max(step, 1)):
        yield batch.slice(first, step)


def to_batch(arrow: Any, first_row: int, columns: Columns) -> Batch:
    """The rows of a record batch."""
    texts, rejects = _texts(column_of(arrow, columns.text), columns.max_document_bytes)
    ids = None
    if columns.id is not None:
        ids, not_utf8 = _ids(column_of(arrow, columns.id))
        for position in not_utf8.tolist():
            rejects.setdefault(position, NOT_UTF8)
        texts = _without(texts, not_utf8)
    return Batch(first_row=first_row, texts=texts, ids=ids, byte_offsets=None, rejects=rejects)


def _texts(column: Any, longest: int) -> tuple[Any, dict[int, str]]:
    """The texts as a LargeStringArray, null where the rejects by position say why not."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.large_string()), dict.fromkeys(range(len(column)), NULL)
    texts = _as_binary(column).cast(pa.large_binary()).view(pa.large_string())
    not_utf8 = _not_utf8(texts)
    texts = _without(texts, not_utf8)
    sizes = pc.binary_length(texts)
    reasons = {
        EMPTY: _true(pc.equal(sizes, 0)),
        BLANK: _true(pc.ascii_is_space(texts)),
        TOO_LARGE: _true(pc.greater(sizes, longest)),
    }
    rejects = {int(position): reason for reason, found in reasons.items() for position in found}
    if texts.null_count:
        rejects |= dict.fromkeys(_true(texts.is_null()).tolist(), NULL)
        rejects |= dict.fromkeys(not_utf8.tolist(), NOT_UTF8)
    unwanted = np.concatenate(list(reasons.values()))
    return _without(texts, unwanted), dict(sorted(rejects.items()))


def _ids(column: Any) -> tuple[Any, NDArray[np.int64]]:
    """The ids as a StringArray, and the positions of those that are not UTF-8 (null among the ids)."""
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.string()), np.empty(0, np.int64)
    ids = _as_binary(column).cast(pa.binary()).view(pa.string())
    not_utf8 = _not_utf8(ids)
    return _without(ids, not_utf8), not_utf8


def _not_utf8(texts: Any) -> NDArray[np.int64]:
    """Positions of values that are not UTF-8: all are checked at once, and singly only if one is not."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = texts.view(
            pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary()
        ).to_pylist()
        found = [i for i, value in enumerate(values) if value is not None and not is_utf8(value)]
        return np.array(found, np.int64)
    return np.empty(0, np.int64)


def _without(values: Any, positions: NDArray[np.int64]) -> Any:
    """The same array, null at `positions` too."""
    if not len(positions):
        return values
    keep = np.ones(len(values), bool)
    keep[positions] = False
    return pc.if_else(pa.array(keep), values, pa.scalar(None, values.type))


def _true(mask: Any) -> NDArray[np.int64]:
    """Positions at which a boolean array is true."""
    return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False))


def _as_binary(column: Any) -> Any:
    """Text as binary, its offsets and indices validated before they are followed; whether it is UTF-8 is asked later."""
    types = pa.types
    if isinstance(column, pa.ExtensionArray):  # JSON is text with a promise
        column = column.storage
    if types.is_dictionary(column.type):
        column.indices.validate(full=True)
        entries = _as_binary(column.dictionary)
        used = column.indices.unique().drop_null()
        # A dictionary is shared by many batches; only what this one uses is taken, which also checks the indices.
        positions = pc.index_in(column.indices, used)
        return entries.take(used).take(positions)
    if types.is_string(column.type):
        column = column.view(pa.binary())
    elif types.is_large_string(column.type):
        column = column.view(pa.large_binary())
    elif types.is_string_view(column.type):
        column = column.view(pa.binary_view())
    column.validate(full=True)
    return column


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
