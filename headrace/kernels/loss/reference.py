"""What `linear_cross_entropy` computes, all logits at once: the definition."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def linear_cross_entropy_reference(x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor, ignored: int) -> Tensor:
    """The sum over tokens of the cross-entropy (nats) of softmax(x @ weight^T); no dimensions, fp32 or wider."""
    logits_TV = x_TD @ weight_VD.T
    logits_TV = logits_TV if logits_TV.dtype.itemsize >= 4 else logits_TV.float()
    return F.cross_entropy(logits_TV, labels_T, ignore_index=ignored, reduction="sum")
