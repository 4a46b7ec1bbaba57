"""One rank's part of a global batch, and the cursor that follows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.manifests.cursor import Cursor


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Rows of one rank; b rows of T = sequence_length tokens.

    sample_ids: int64 [b], ascending. inputs: int64 [b, T]. labels: int64 [b, T], the next token, or -100 where
    that token opens another document (if the plan masks those). positions: int64 [b, T], counted from 0 in each
    document's part of a row. cu_seqlens: int32 [pieces + 1], where those parts begin in the flattened b * T
    inputs, then b * T. first_sample, end_sample: the global batch is [first_sample, end_sample). digest: sum mod
    2**64 of the rows' digests; its sum over ranks does not depend on their number. cursor: where the stream
    stands once this batch was consumed. wait_seconds: how long the caller waited for it.
    """

    sample_ids: NDArray[np.int64]
    inputs: NDArray[np.int64]
    labels: NDArray[np.int64]
    positions: NDArray[np.int64]
    cu_seqlens: NDArray[np.int32]
    first_sample: int
    end_sample: int
    digest: int
    cursor: Cursor
    wait_seconds: float = 0.0
