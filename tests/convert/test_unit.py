from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.convert.token_file import INTEGERS
from headrace.convert.unit import checked_ids, ids_hashes
from headrace.convert.vocabulary import of_size
from headrace.errors import InputError

IDENTITY = of_size(100, bos="none", eos="none").identity
documents = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), min_size=1, max_size=6)


@given(documents, st.sampled_from(INTEGERS), st.sampled_from(["uint16", "uint32"]))
def test_ids_become_narrow_and_stay_what_they_are(some: list[list[int]], given_as: str, dtype: str) -> None:
    flat = [token for document in some for token in document]
    lengths = np.array([len(document) for document in some], np.int64)
    found = checked_ids(np.array(flat, given_as), lengths, np.arange(len(some)), IDENTITY, dtype, "file")
    assert found.dtype == dtype
    assert found.tolist() == flat
    hashes = ids_hashes(found, lengths).to_pylist()
    stored = [np.array(document, np.dtype(dtype).newbyteorder("<")).tobytes() for document in some]
    assert hashes == [hashlib.sha256(data).digest()[:16] for data in stored]


@pytest.mark.parametrize(
    ("dtype", "bad"),
    [("uint8", 100), ("int64", -1), ("uint64", 2**64 - 1), ("int64", -(2**63)), ("int32", 2**31 - 1)],
)
def test_an_id_outside_the_vocabulary_is_named_with_its_document(dtype: str, bad: int) -> None:
    found = np.array([1, 2, 3, bad, 4], dtype)
    with pytest.raises(InputError, match=rf"^file: document 11 has the id {bad:,}, "):
        checked_ids(found, np.array([2, 3]), np.array([10, 11]), IDENTITY, "uint16", "file")


@pytest.mark.parametrize("dtype", ["uint8", "int64", "uint64"])
def test_a_frame_is_held_to_every_document(dtype: str) -> None:
    found, lengths, rows = np.array([7, 1, 9, 7, 9], dtype), np.array([3, 2]), np.array([4, 5])
    both = replace(IDENTITY, bos="7", bos_id=7, eos="9", eos_id=9)
    checked_ids(found, lengths, rows, both, "uint16", "file")
    with pytest.raises(InputError, match=r"document 4 does not begin with the id 9 .* but with 7"):
        checked_ids(found, lengths, rows, replace(IDENTITY, bos="9", bos_id=9), "uint16", "file")
    with pytest.raises(InputError, match=r"document 4 does not end with the id 7 .* but with 9"):
        checked_ids(found, lengths, rows, replace(IDENTITY, eos="7", eos_id=7), "uint16", "file")
