"""One matrix product per expert over rows sorted by expert: the seam where faster kernels will come."""

from __future__ import annotations

import torch
from torch import Tensor


def grouped_matmul(x_SD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """[S, F]: rows [ends_E[e-1], ends_E[e]) of `x_SD` times `weight_EDF[e]`. ends_E: int32, ends_E[-1] == S.

    On the CPU a loop over experts is 1.2 to 1.3 times as fast as torch's grouped product (fp32, forward and
    backward, 512 rows an expert, widths 192 to 512) and needs no aligned rows; reading `ends_E` costs nothing there.
    """
    if x_SD.device.type == "cpu":
        lengths = torch.diff(ends_E, prepend=ends_E.new_zeros(1)).tolist()
        return torch.cat([x @ w for x, w in zip(x_SD.split(lengths), weight_EDF.unbind(), strict=True)])
    return _grouped_mm(x_SD, weight_EDF, ends_E)


def _grouped_mm(x_SD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    return torch.nn.functional.grouped_mm(x_SD, weight_EDF, offs=ends_E)
