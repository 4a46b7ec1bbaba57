"""Root-mean-square normalisation (arXiv:1910.07467)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """x_BTD / rms(x_BTD) * weight_D, computed in fp32 and returned in the dtype of the input."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight_D = nn.Parameter(torch.empty(width))
        self.epsilon = epsilon

    def forward(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.rms_norm(
            x_BTD.float(), self.weight_D.shape, self.weight_D.float(), self.epsilon
        ).to(x_BTD.dtype)
