"""Documents out of records (an Example, or the text itself): one text, perhaps an id, or the reason why not."""

from __future__ import annotations

from headrace.dataeng.sources.base import (
    BATCH_BYTES,
    BATCH_ROWS,
    NO_TEXT,
    NOT_EXAMPLE,
    NOT_TEXT,
    NOT_UTF8,
    Batch,
    Columns,
    reject_reason,
)
from headrace.dataeng.sources.example import (
    Feature,
    NotAnExampleError,
    bytes_values,
    int_values,
    parse_example,
)


class BatchBuilder:
    """A batch of records in the making, bounded in rows and bytes."""

    def __init__(self, first_row: int, columns: Columns) -> None:
        self.columns, self.first_row = columns, first_row
        self.texts: list[bytes | None] = []
        self.ids: list[str | None] = []
        self.byte_offsets: list[int] = []
        self.rejects: dict[int, str] = {}
        self.num_bytes = 0

    def add(self, offset: int, payload: bytes | None, reason: str | None) -> None:
        """One record at `offset`: its payload, or None and why there is none."""
        text, name = None, None
        if payload is not None:
            text, name, reason = _document(payload, self.columns)
            self.num_bytes += len(payload)
        if reason is not None:
            text = None
            self.rejects[len(self.texts)] = reason
        self.texts.append(text)
        self.ids.append(name)
        self.byte_offsets.append(offset)

    def is_full(self) -> bool:
        return len(self.texts) >= BATCH_ROWS or self.num_bytes >= BATCH_BYTES

    def build(self) -> Batch:
        ids = self.ids if self.columns.id is not None else None
        return Batch.of(
            first_row=self.first_row,
            texts=self.texts,
            ids=ids,
            byte_offsets=self.byte_offsets,
            rejects=self.rejects,
        )


def _document(payload: bytes, columns: Columns) -> tuple[bytes | None, str | None, str | None]:
    """(text, id, reason) of one record."""
    if columns.raw_records:
        return payload, None, reject_reason(payload, columns.max_document_bytes)
    try:
        features = parse_example(payload)
        text, reason = _text(features.get(columns.text), columns.max_document_bytes)
        if reason is not None or columns.id is None:
            return text, None, reason
        return text, _id(features.get(columns.id)), None
    except NotAnExampleError:
        return None, None, NOT_EXAMPLE
    except UnicodeDecodeError:
        return None, None, NOT_UTF8


def _text(feature: Feature | None, longest: int) -> tuple[bytes | None, str | None]:
    if feature is None or feature.kind == "none":
        return None, NO_TEXT
    if feature.kind != "bytes":
        return None, NOT_TEXT
    values = bytes_values(feature)
    if len(values) != 1:
        return None, NOT_TEXT if values else NO_TEXT
    return values[0], reject_reason(values[0], longest)


def _id(feature: Feature | None) -> str | None:
    """The id as text; None where the record has none, or not exactly one."""
    if feature is None or feature.kind not in ("bytes", "int64"):
        return None
    if feature.kind == "bytes":
        names = bytes_values(feature)
        return names[0].decode() if len(names) == 1 else None
    numbers = int_values(feature)
    return str(numbers[0]) if len(numbers) == 1 else None
