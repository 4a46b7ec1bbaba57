"""`linear_cross_entropy`: the loss of a chunk of tokens after the other, and the gradients while their logits are there."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_ROWS: Final = 256  # a chunk is whole tiles of the products


def linear_cross_entropy(
    x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor, *, ignored: int = -100, chunk_bytes: int = 320 << 20
) -> Tensor:
    """The sum over tokens of the cross-entropy (nats) of softmax(x @ weight^T): fp32, no dimensions.

    x_TD: [T, D]. weight_VD: [V, D], of the same dtype. labels_T: int64, `ignored` or below V. Differentiable in the
    first two, once. chunk_bytes: of logits at a time, all that it needs beside the gradients; never under 256 tokens.
    """
    loss: Tensor
    if torch.is_grad_enabled() and (x_TD.requires_grad or weight_VD.requires_grad):
        loss = _LinearCrossEntropy.apply(x_TD, weight_VD, labels_T, ignored, chunk_bytes)
        return loss
    loss, _, _ = _loss_and_gradients(x_TD, weight_VD, labels_T, ignored, chunk_bytes, gradients=False)
    return loss


def chunk_rows(tokens: int, vocabulary: int, itemsize: int, chunk_bytes: int) -> int:
    """Tokens at a time: equal chunks, as few as the memory allows."""
    most = max(_ROWS, chunk_bytes // (vocabulary * itemsize) // _ROWS * _ROWS)
    chunks = max(1, math.ceil(tokens / most))
    return math.ceil(tokens / chunks / _ROWS) * _ROWS


@torch.library.custom_op("headrace::linear_cross_entropy", mutates_args=())
def _loss_and_gradients(
    x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor, ignored: int, chunk_bytes: int, gradients: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, and its gradients (empty without `gradients`)."""
    T, V = len(x_TD), len(weight_VD)
    softmax_gradient_ = _softmax_for(x_TD.device)
    rows = chunk_rows(T, V, x_TD.element_size(), chunk_bytes)
    loss = torch.zeros((), dtype=torch.float32, device=x_TD.device)
    d_x_TD = torch.empty_like(x_TD) if gradients else x_TD.new_empty(0)
    d_weight_VD = torch.zeros_like(weight_VD) if gradients else weight_VD.new_empty(0)
    logits = x_TD.new_empty(min(rows, T), V)
    for begin in range(0, T, rows):
        x_CD = x_TD[begin : begin + rows]
        logits_CV = torch.mm(x_CD, weight_VD.T, out=logits[: len(x_CD)])
        loss += softmax_gradient_(logits_CV, labels_T[begin : begin + rows], ignored).sum()
        if gradients:
            torch.mm(logits_CV, weight_VD, out=d_x_TD[begin : begin + rows])
            d_weight_VD.addmm_(logits_CV.T, x_CD)
    return loss, d_x_TD, d_weight_VD


@_loss_and_gradients.register_fake
def _(
    x_TD: Tensor, weight_VD: Tensor, _labels_T: Tensor, _ignored: int, _chunk_bytes: int, gradients: bool
) -> tuple[Tensor, Tensor, Tensor]:
    loss = x_TD.new_empty((), dtype=torch.float32)
    if not gradients:
        return loss, x_TD.new_empty(0), weight_VD.new_empty(0)
    return loss, torch.empty_like(x_TD), torch.empty_like(weight_VD)


def _softmax_for(device: torch.device) -> Any:
    if device.type == "cuda":  # where torch brings Triton
        from headrace.kernels.loss.softmax import softmax_gradient_

        return softmax_gradient_
    return softmax_gradient_by_torch_


def softmax_gradient_by_torch_(logits_CV: Tensor, labels_C: Tensor, ignored: int) -> Tensor:
    """What `softmax.softmax_gradient_` does, in plain torch."""
    valid_C = labels_C != ignored
    labels_C1 = labels_C.where(valid_C, 0)[:, None]
    log_shares_CV = logits_CV.float().log_softmax(dim=-1)
    losses_C = -log_shares_CV.gather(-1, labels_C1)[:, 0]
    shares_CV = log_shares_CV.exp_()
    shares_CV.scatter_add_(-1, labels_C1, torch.full_like(labels_C1, -1, dtype=shares_CV.dtype))
    # Not by a product: what is ignored may not be finite.
    logits_CV.copy_(shares_CV.where(valid_C[:, None], 0.0))
    return losses_C.where(valid_C, 0.0)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor, ignored: int, chunk_bytes: int
    ) -> Tensor:
        loss, d_x_TD, d_weight_VD = _loss_and_gradients(
            x_TD, weight_VD, labels_T, ignored, chunk_bytes, gradients=True
        )
        ctx.save_for_backward(d_x_TD, d_weight_VD)
        result: Tensor = loss
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = [(saved, grad.to(saved.dtype)) for saved in ctx.saved_tensors]
        if torch.compiler.is_compiling():
            return *(saved * factor for saved, factor in gradients), None, None, None
        # In place: a copy of the matrix would be more than the logits of a chunk. torch refuses a second pass.
        return *(saved.mul_(factor) for saved, factor in gradients), None, None, None
