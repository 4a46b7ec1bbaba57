"""What Parquet and Arrow files share: kinds of columns, paths into structs, and columns as checked texts and ids.

A path such as `data.text` is the column of that very name, or else the field `text` of the struct column `data`. Lists
and maps are not looked into: which of their elements would be the document?
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from headrace.dataeng.sources.base import (
    NOT_UTF8,
    NULL,
    Batch,
    Columns,
    is_utf8,
    reject_reason,
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


def to_batch(arrow: Any, first_row: int, columns: Columns) -> Batch:
    """The rows of a record batch."""
    texts, rejects = _texts(column_of(arrow, columns.text))
    ids = _ids(column_of(arrow, columns.id), rejects, texts) if columns.id is not None else None
    return Batch(first_row=first_row, texts=texts, ids=ids, byte_offsets=None, rejects=rejects)


def _texts(column: Any) -> tuple[list[bytes | None], dict[int, str]]:
    """The values as bytes, each checked to be UTF-8 by itself: Arrow would only say that one of them is not.

    Rows that share an entry of a dictionary share its bytes and its check.
    """
    values = _values(column)
    checked: dict[int, str | None] = {}
    is_shared = pa.types.is_dictionary(column.type)
    rejects: dict[int, str] = {}
    for position, value in enumerate(values):
        if value is None:
            reason: str | None = NULL
        elif not is_shared:
            reason = reject_reason(value)
        elif (seen := id(value)) in checked:
            reason = checked[seen]
        else:
            reason = checked[seen] = reject_reason(value)
        if reason is not None:
            rejects[position] = reason
    for position in rejects:
        values[position] = None
    return values, rejects


def _ids(column: Any, rejects: dict[int, str], texts: list[bytes | None]) -> list[str | None]:
    if pa.types.is_integer(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    ids: list[str | None] = []
    for position, value in enumerate(_values(column)):
        if value is not None and not is_utf8(value):
            rejects.setdefault(position, NOT_UTF8)
            texts[position] = value = None
        ids.append(None if value is None else value.decode())
    return ids


def _values(column: Any) -> list[bytes | None]:
    """The bytes of a text column of any layout, with offsets and indices validated before they are followed.

    Rows that share an entry of a dictionary share its bytes: what a few bytes of indices expand to is never made.
    """
    if not pa.types.is_dictionary(column.type):
        return _as_binary(column).to_pylist()  # type: ignore[no-any-return]
    indices, dictionary = column.indices, _as_binary(column.dictionary)
    indices.validate(full=True)
    used = indices.unique().drop_null()
    # A dictionary is shared by many batches; taking what this one uses also checks the bounds of its indices.
    entries = dict(zip(used.to_pylist(), dictionary.take(used).to_pylist(), strict=True))
    return [entries.get(index) for index in indices.to_pylist()]


def _as_binary(column: Any) -> Any:
    """Text as binary, of which only the layout is validated: whether it is UTF-8 is asked of each value."""
    types = pa.types
    if isinstance(column, pa.ExtensionArray):  # JSON is text with a promise
        column = column.storage
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
