"""Taking gate and up apart inside a kernel: which register holds what changes, and nothing moves."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def split_columns(gate_up, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INTERLEAVE: tl.constexpr):
    """[ROWS, COLUMNS] -> gate, up: [ROWS, COLUMNS / 2] each (`glu.split`)."""
    blocks = gate_up.reshape(ROWS, COLUMNS // (2 * INTERLEAVE), 2, INTERLEAVE).permute(0, 1, 3, 2)
    gate, up = tl.split(blocks)
    return gate.reshape(ROWS, COLUMNS // 2), up.reshape(ROWS, COLUMNS // 2)
