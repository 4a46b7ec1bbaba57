"""Read a token file slice by slice, without a dataset."""

from __future__ import annotations

from headrace.convert.token_file import TokenFile


def read_all(file: TokenFile) -> list[list[int]]:
    """Every document of every slice, and that rows and places go on where the last one ended."""
    found: list[list[int]] = []
    for part in file.source.slices:
        row = part.first_row
        for documents in file.read(part):
            assert documents.reason is None
            assert documents.first_row == row
            ends = documents.lengths.cumsum().tolist()
            assert len(documents.tokens) == ends[-1]
            for begin, end in zip([0, *ends[:-1]], ends, strict=True):
                found.append(documents.tokens[begin:end].tolist())
            row += len(documents.lengths)
        if part.num_rows is not None:
            assert row == part.first_row + part.num_rows
    if file.source.num_rows is not None:
        assert len(found) == file.source.num_rows
    return found
