"""Where the documents of a micro-batch begin, in the forms that attention asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Documents:
    """The document layout of one micro-batch, made once and shared by all layers.

    positions_BT: int64, from 0 inside each document.
    boundaries: int32 [documents + 1], offsets of document starts in the B*T flattened tokens; every row starts one.
    longest: tokens of the longest document.
    """

    positions_BT: Tensor
    boundaries: Tensor
    longest: int

    @classmethod
    def of(
        cls, positions_BT: NDArray[np.int64], boundaries: NDArray[np.int32], device: torch.device
    ) -> Documents:
        return cls(
            torch.from_numpy(positions_BT).to(device, non_blocking=True),
            torch.from_numpy(boundaries).to(device, non_blocking=True),
            int(np.diff(boundaries).max()),
        )

    def mask(self) -> Tensor:
        """[B, T, T]: true where the second token may be seen from the first: same document, not later."""
        B, T = self.positions_BT.shape
        tokens_N = torch.arange(B * T, device=self.boundaries.device, dtype=self.boundaries.dtype)
        document_BT = torch.bucketize(tokens_N, self.boundaries, right=True).view(B, T)
        same_BTT = document_BT[:, :, None] == document_BT[:, None, :]
        return same_BTT & torch.ones(T, T, dtype=torch.bool, device=same_BTT.device).tril()


def rows(boundaries: NDArray[np.int32], first: int, end: int, length: int) -> NDArray[np.int32]:
    """The boundaries of rows [first, end) alone, counted from the first of them."""
    inside = (boundaries >= first * length) & (boundaries <= end * length)
    return boundaries[inside] - np.int32(first * length)
