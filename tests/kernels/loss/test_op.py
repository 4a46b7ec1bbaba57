from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headrace.kernels.loss.op import _loss_and_gradients, chunk_rows, linear_cross_entropy
from headrace.kernels.loss.reference import linear_cross_entropy_reference

IGNORED = -100


def inputs(tokens: int, width: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    labels_T = torch.randint(vocabulary, (tokens,), generator=generator)
    labels_T[::5] = IGNORED
    return (
        torch.randn(tokens, width, generator=generator, requires_grad=True),
        torch.randn(vocabulary, width, generator=generator, requires_grad=True),
        labels_T,
    )


@pytest.mark.parametrize("tokens", [1, 256, 257, 1100])
def test_chunks_give_the_loss_and_gradients_of_all_logits_at_once(tokens: int) -> None:
    x_TD, weight_VD, labels_T = inputs(tokens, 24, 300)
    loss = linear_cross_entropy(x_TD, weight_VD, labels_T, chunk_bytes=1)
    found = torch.autograd.grad(0.3 * loss, (x_TD, weight_VD))
    x, weight = (value.detach().double().requires_grad_() for value in (x_TD, weight_VD))
    expected = linear_cross_entropy_reference(x, weight, labels_T, IGNORED)
    wanted = torch.autograd.grad(0.3 * expected, (x, weight))
    torch.testing.assert_close(loss.double(), expected)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-4)


def test_loss_without_gradients_is_the_same_loss() -> None:
    x_TD, weight_VD, labels_T = inputs(300, 8, 50)
    with torch.no_grad():
        alone = linear_cross_entropy(x_TD, weight_VD, labels_T, chunk_bytes=1)
    assert alone == linear_cross_entropy(x_TD, weight_VD, labels_T, chunk_bytes=1)
    assert not alone.requires_grad


def test_nothing_but_ignored_labels_is_no_loss_and_no_gradient() -> None:
    x_TD, weight_VD, labels_T = inputs(10, 8, 50)
    x_TD.data[:] = float("inf")
    loss = linear_cross_entropy(x_TD, weight_VD, torch.full_like(labels_T, IGNORED))
    assert loss == 0
    d_x_TD, _ = torch.autograd.grad(loss, (x_TD, weight_VD))
    assert not d_x_TD.any()


def test_second_backward_pass_is_refused() -> None:
    x_TD, weight_VD, labels_T = inputs(10, 8, 50)
    loss = linear_cross_entropy(x_TD, weight_VD, labels_T)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_chunks_are_equal_and_within_their_memory() -> None:
    assert chunk_rows(16384, 151936, 2, 640 << 20) == 2048
    assert chunk_rows(16384, 151936, 2, 320 << 20) == 1024
    assert chunk_rows(2100, 151936, 2, 640 << 20) == 1280  # two of 1,280, not 2,048 and 52
    assert chunk_rows(100, 10**9, 4, 1) == 256


def test_operator_tells_the_compiler_the_truth() -> None:
    x_TD, weight_VD, labels_T = inputs(20, 8, 50)
    for gradients in (True, False):
        torch.library.opcheck(
            _loss_and_gradients, (x_TD.detach(), weight_VD.detach(), labels_T, IGNORED, 1, gradients)
        )


def test_kernel_equals_plain_torch_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="triton is not installed: pip install triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    script = Path(__file__).with_name("interpreted.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
