from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.tokenize.dedup.firsts import first_documents

WORD = st.sampled_from([0, 1, 2**63, 2**64 - 1])


@given(keys=st.lists(st.tuples(WORD, WORD), max_size=40), draw=st.randoms(use_true_random=False))
def test_each_key_has_its_smallest_document_also_where_keys_begin_alike(
    keys: list[tuple[int, int]], draw: st.DrawFn
) -> None:
    documents = list(range(len(keys)))
    draw.shuffle(documents)  # type: ignore[attr-defined]
    expected = [
        min(document for other, document in zip(keys, documents, strict=True) if other == key) for key in keys
    ]
    found = first_documents(np.array(keys, np.uint64).reshape(-1, 2), np.array(documents, np.uint64))
    assert found.tolist() == expected
