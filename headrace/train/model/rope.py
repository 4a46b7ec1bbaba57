"""Rotary positions (arXiv:2104.09864), in the half-split layout that Llama checkpoints use."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Rotation(NamedTuple):
    """cos_BTC, sin_BTC: fp32, the angles of each position, each frequency given twice."""

    cos_BTC: Tensor
    sin_BTC: Tensor


def rotation(positions_BT: Tensor, channels: int, base: float) -> Rotation:
    """The rotation of each position; `positions_BT` counts from 0 inside each document."""
    exponents = torch.arange(0, channels, 2, dtype=torch.float32, device=positions_BT.device) / channels
    angles_BTC = positions_BT.float()[..., None] * (base**-exponents).repeat(2)
    return Rotation(angles_BTC.cos(), angles_BTC.sin())


def rotate(x_BTHC: Tensor, by: Rotation) -> Tensor:
    """Turns each channel pair (i, i + C/2) by its angle; in fp32, returned in the dtype of the input."""
    x = x_BTHC.float()
    first, second = x.chunk(2, dim=-1)
    turned = x * by.cos_BTC[:, :, None] + torch.cat((-second, first), dim=-1) * by.sin_BTC[:, :, None]
    return turned.to(x_BTHC.dtype)
