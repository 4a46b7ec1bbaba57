"""Read whole sources, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from headrace.dataeng.sources.base import Batch, read_slice
from headrace.dataeng.sources.discover import discover


class Rows(NamedTuple):
    """`texts` of the documents, their `ids`, and {(row group, row): reason} of the others."""

    texts: list[str]
    ids: list[str | None]
    rejects: dict[tuple[int | None, int], str]
    byte_offsets: list[int]


def read_all(
    *places: Path | str,
    text_column: str | None = None,
    id_column: str | None = None,
    slice_bytes: int = 1 << 20,
    allow_damage: bool = False,
    max_document_bytes: int = 256 << 20,
    **options: Any,
) -> Rows:
    found = discover(
        [str(place) for place in places],
        text_column=text_column,
        id_column=id_column,
        slice_bytes=slice_bytes,
        allow_damage=allow_damage,
        max_document_bytes=max_document_bytes,
        **options,
    )
    rows = Rows([], [], {}, [])
    for source in found.sources:
        counted = 0
        for part in source.slices:
            in_slice = 0
            for batch in read_slice(source, part, found.columns):
                assert batch.first_row == part.first_row + in_slice
                in_slice += len(batch.texts)
                _add(rows, part.row_group, batch)
            assert part.num_rows in (None, in_slice)
            counted += in_slice
        assert source.num_rows in (None, counted)
    return rows


def _add(rows: Rows, group: int | None, batch: Batch) -> None:
    ids = None if batch.ids is None else batch.ids.to_pylist()
    for position, text in enumerate(batch.texts.to_pylist()):
        assert (text is None) == (position in batch.rejects)
        if text is None:
            rows.rejects[group, batch.first_row + position] = batch.rejects[position]
        else:
            rows.texts.append(text)
            rows.ids.append(ids[position] if ids else None)
        if batch.byte_offsets is not None:
            rows.byte_offsets.append(int(batch.byte_offsets[position]))
