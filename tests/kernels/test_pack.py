from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.pack import (
    frame_documents,
    frame_documents_reference,
    write_samples,
    write_samples_reference,
)

DOCUMENTS = st.lists(st.lists(st.integers(0, 65_535), max_size=300), max_size=12)
TOKEN = st.one_of(st.none(), st.integers(0, 65_535))


@settings(deadline=None)  # the first call compiles
@given(documents=DOCUMENTS, bos=TOKEN, eos=TOKEN, dtype=st.sampled_from(["uint16", "uint32"]))
def test_framing_is_what_the_reference_says(
    documents: list[list[int]], bos: int | None, eos: int | None, dtype: str
) -> None:
    ids = np.array([token for ids in documents for token in ids], np.uint32)
    offsets = np.cumsum([0, *map(len, documents)])
    tokens = np.empty(len(ids) + 2 * len(documents), dtype)
    lengths = np.empty(len(documents), np.int64)
    count = frame_documents(
        ids, offsets, -1 if bos is None else bos, -1 if eos is None else eos, tokens, lengths
    )
    expected = frame_documents_reference(documents, bos, eos)
    assert lengths.tolist() == [len(document) for document in expected]
    assert tokens[:count].tolist() == [token for document in expected for token in document]


@settings(deadline=None)  # the first call compiles
@given(documents=DOCUMENTS, itemsize=st.sampled_from([2, 4]))
def test_samples_are_what_the_reference_says(documents: list[list[int]], itemsize: int) -> None:
    check_samples(documents, itemsize)


@pytest.mark.parametrize("length", [255, 256, 65_535, 65_536])
def test_samples_at_the_borders_of_the_width_of_their_length(length: int) -> None:
    check_samples([[7] * length, [1]], 2)


def check_samples(documents: list[list[int]], itemsize: int) -> None:
    flat = [token for document in documents for token in document]
    tokens = np.array(flat, f"<u{itemsize}").view(np.uint8)
    expected = write_samples_reference(documents, itemsize)
    file = np.zeros(3 + len(expected), np.uint8)
    end = write_samples(tokens, itemsize, np.array(list(map(len, documents)), np.int64), file, 3)
    assert end == len(file)
    assert file[3:].tobytes() == expected
