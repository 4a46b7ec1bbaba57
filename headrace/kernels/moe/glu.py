"""How the columns of gate and up lie in one matrix: INTERLEAVE of gate, INTERLEAVE of up, and so on.

One product of full width then makes both of a hidden unit, in registers of one thread (two products of half the width
are a fifth slower on Hopper), and whatever cuts the matrix by columns, a tensor-parallel rank say, has whole units.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

INTERLEAVE: Final = 16  # elements: 32 bytes of bfloat16, what memory moves at a time


def split(gate_up: Tensor) -> tuple[Tensor, Tensor]:
    """[..., 2F] -> gate, up: [..., F] each."""
    gate, up = gate_up.unflatten(-1, (-1, 2, INTERLEAVE)).unbind(-2)
    return gate.flatten(-2), up.flatten(-2)


def join(gate: Tensor, up: Tensor) -> Tensor:
    """The inverse of `split`."""
    blocks = (gate.unflatten(-1, (-1, INTERLEAVE)), up.unflatten(-1, (-1, INTERLEAVE)))
    return torch.stack(blocks, dim=-2).flatten(-3)
