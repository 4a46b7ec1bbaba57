"""The kernel against plain torch, in Triton's interpreter: run by `test_op.py`, which sets the environment for it."""

from __future__ import annotations

from typing import Any, cast

import torch

from headrace.kernels.loss import softmax
from headrace.kernels.loss.op import softmax_gradient_by_torch_


def main() -> None:
    cast("Any", softmax)._BLOCK = 64
    torch.manual_seed(0)
    for width in (1, 50, 64, 200):
        logits_CV = 5 * torch.randn(9, width)
        labels_C = torch.randint(width, (9,))
        labels_C[2], logits_CV[2] = -100, float("nan")  # what is ignored reaches nothing
        logits_CV[3, : width // 2] = float("-inf")
        labels_C[3] = width - 1
        expected_CV = logits_CV.clone()
        losses_C = softmax.softmax_gradient_(logits_CV, labels_C, -100)
        torch.testing.assert_close(losses_C, softmax_gradient_by_torch_(expected_CV, labels_C, -100))
        torch.testing.assert_close(logits_CV, expected_CV, rtol=1e-5, atol=2e-6)


if __name__ == "__main__":
    main()
