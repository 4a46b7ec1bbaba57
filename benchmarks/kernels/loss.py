"""The last projection with its cross-entropy, forward and backward: 6 T D V FLOPs, and the memory beside its gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.kernels.measure import DENSE, Dense, in_turns, relative_error
from headrace.kernels.loss.op import linear_cross_entropy
from headrace.kernels.loss.reference import linear_cross_entropy_reference
from headrace.kernels.loss.softmax import softmax_gradient_

_T, _D, _V = 16384, 2048, 151936
_IGNORED = -100
_LARGE = 640 << 20

Say = Callable[[str], None]
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _inputs(tokens: int, vocabulary: int) -> tuple[Tensor, Tensor, Tensor]:
    options = {"device": "cuda", "dtype": torch.bfloat16}
    labels_T = torch.randint(vocabulary, (tokens,), device="cuda")
    labels_T[::50] = _IGNORED
    x_TD = torch.randn(tokens, _D, **options)  # type: ignore[call-overload]
    weight_VD = torch.randn(vocabulary, _D, **options) * _D**-0.5  # type: ignore[call-overload]
    return x_TD.requires_grad_(), weight_VD.requires_grad_(), labels_T


def torch_loss(x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor) -> Tensor:
    logits_TV = (x_TD @ weight_VD.T).float()
    return functional.cross_entropy(logits_TV, labels_T, ignore_index=_IGNORED, reduction="sum")


def _gradients(loss: Loss, x_TD: Tensor, weight_VD: Tensor, labels_T: Tensor) -> tuple[Tensor, ...]:
    mean = loss(x_TD, weight_VD, labels_T) / len(x_TD)
    return torch.autograd.grad(mean, (x_TD, weight_VD))


def check(say: Say) -> None:
    """Errors against fp64 may be at most twice those of torch."""
    x_TD, weight_VD, labels_T = _inputs(3001, 5003)
    exact = (x_TD.detach().double().requires_grad_(), weight_VD.detach().double().requires_grad_(), labels_T)
    wanted = _gradients(lambda x, w, labels: linear_cross_entropy_reference(x, w, labels, _IGNORED), *exact)
    mine = _gradients(lambda *a: linear_cross_entropy(*a, chunk_bytes=1), x_TD, weight_VD, labels_T)
    theirs = _gradients(torch_loss, x_TD, weight_VD, labels_T)
    for name, one, other, value in zip(("d x", "d weight"), mine, theirs, wanted, strict=True):
        error, peer = relative_error(one, value), relative_error(other, value)
        say(f"error of {name:10} {error:.2e}, torch {peer:.2e}")
        assert error <= 2 * peer, name


def measure(say: Say, *, peers: bool) -> None:
    inputs = _inputs(_T, _V)
    say(f"== linear and cross-entropy: T {_T}, D {_D}, V {_V}, forward and backward")
    losses: dict[str, Loss] = {
        "headrace": linear_cross_entropy,
        "headrace, 640 MiB": lambda *a: linear_cross_entropy(*a, chunk_bytes=_LARGE),
    }
    if peers:
        losses |= {"torch eager": torch_loss, "torch compiled": torch.compile(torch_loss)}
    calls: dict[str, Callable[[], object]] = {
        name: lambda loss=loss: _gradients(loss, *inputs)  # type: ignore[misc]
        for name, loss in losses.items()
    }
    peaks = {name: _peak(call) for name, call in calls.items()}
    logits = torch.randn(2048, _V, device="cuda", dtype=torch.bfloat16)
    softmax = {"softmax": lambda: softmax_gradient_(logits, inputs[2][:2048], _IGNORED)}
    times = in_turns({DENSE: Dense(), **calls, **softmax}, rounds=8)
    rate = Dense.rate(times[DENSE])
    say(f"R, the rate of a dense bf16 product of 8192^3: {rate / 1e12:.0f} TFLOP/s")
    for name in losses:
        share = 6 * _T * _D * _V / times[name] * 1e3 / rate
        say(f"{name:18} {share:.3f} R ({times[name]:.1f} ms), {peaks[name]:.2f} GiB beside the gradients")
    say(
        f"  softmax in place {times['softmax']:.3f} ms, {2 * logits.nbytes / times['softmax'] / 1e9:.2f} TB/s"
    )


def _peak(call: Callable[[], object]) -> float:
    """GiB at most in use, less what was there before and the gradients."""
    call()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    results = call()
    torch.cuda.synchronize()
    assert isinstance(results, tuple)
    gradients = sum(result.nbytes for result in results)
    return float((torch.cuda.max_memory_allocated() - before - gradients) / 2**30)
