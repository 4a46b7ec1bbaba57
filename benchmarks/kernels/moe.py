"""The expert MLP, forward and backward, against the definition, and its rate against torch's grouped products.

FLOPs: 6 T K D F forward, 18 T K D F with the backward pass. Activation memory is what lives between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.kernels.measure import DENSE, Dense, in_turns, relative_error
from headrace.kernels.moe.back import through_swiglu
from headrace.kernels.moe.combine import combine
from headrace.kernels.moe.glu import split
from headrace.kernels.moe.op import moe_mlp
from headrace.kernels.moe.order import by_place, sort_by_expert
from headrace.kernels.moe.reference import moe_mlp_reference
from headrace.kernels.moe.rows import rows_times_expert
from headrace.kernels.moe.sort import sort_on_device
from headrace.kernels.moe.tuned import config_for
from headrace.kernels.moe.up import up
from headrace.kernels.moe.weights import expert_products
from headrace.train.model import dispatch

Mlp = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    name: str
    T: int
    D: int
    F: int
    E: int
    K: int

    @property
    def forward_flops(self) -> float:
        return 6.0 * self.T * self.K * self.D * self.F


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(name="olmoe", T=32768, D=2048, F=1024, E=64, K=8),
        Shape(name="qwen3", T=32768, D=2048, F=768, E=128, K=8),
        Shape(name="dsv2-lite", T=32768, D=2048, F=1408, E=64, K=6),
        Shape(name="mixtral", T=16384, D=4096, F=14336, E=8, K=2),
    )
}
# Ragged groups, an odd number of tokens, widths that no block divides.
_CHECKED = Shape(name="checked", T=1003, D=272, F=208, E=12, K=3)


def inputs(shape: Shape, *, used: int | None = None) -> tuple[Tensor, ...]:
    """Random values and random routing (of the first `used` experts), in bf16."""
    device = "cuda"
    x_TD = torch.randn(shape.T, shape.D, device=device, dtype=torch.bfloat16)
    gate_up_EDG = (
        torch.randn(shape.E, shape.D, 2 * shape.F, device=device, dtype=torch.bfloat16) * shape.D**-0.5
    )
    down_EFD = torch.randn(shape.E, shape.F, shape.D, device=device, dtype=torch.bfloat16) * shape.F**-0.5
    scores_TK, experts_TK = torch.randn(shape.T, used or shape.E, device=device).softmax(-1).topk(shape.K)
    return x_TD, gate_up_EDG, down_EFD, scores_TK / scores_TK.sum(-1, keepdim=True), experts_TK


def torch_mlp(
    x_TD: Tensor, gate_up_EDG: Tensor, down_EFD: Tensor, weights_TK: Tensor, experts_TK: Tensor
) -> Tensor:
    """The same by torch's grouped products. gate_up_EDG: gate before up, as its users have it."""
    order = sort_by_expert(experts_TK, gate_up_EDG.shape[0])
    x_SD = dispatch.permute(x_TD, order)
    gate, up_ = functional.grouped_mm(x_SD, gate_up_EDG, offs=order.ends_E).chunk(2, dim=-1)
    y_SD = functional.grouped_mm(functional.silu(gate) * up_, down_EFD, offs=order.ends_E)
    return dispatch.combine(y_SD, weights_TK, order)


def halves(gate_up_EDG: Tensor) -> Tensor:
    return torch.cat(split(gate_up_EDG), dim=-1)


def run(mlp: Mlp, floats: list[Tensor], experts_TK: Tensor, grad_TD: Tensor) -> list[Tensor]:
    """The output and the four gradients."""
    leaves = [value.detach().requires_grad_() for value in floats]
    out = mlp(*leaves, experts_TK)  # type: ignore[call-arg]
    return [out.detach(), *torch.autograd.grad(out, leaves, grad_TD.to(out.dtype))]


def check(say: Say) -> None:
    """Errors against the definition in fp64 may be at most twice those of torch's grouped products, and two runs agree
    to the bit, or nothing is timed.
    """
    for used in (None, 5):
        *floats, experts_TK = inputs(_CHECKED, used=used)
        grad_TD = torch.randn_like(floats[0])
        exact = run(moe_mlp_reference, [value.double() for value in floats], experts_TK, grad_TD)
        mine, again = (run(moe_mlp, floats, experts_TK, grad_TD) for _ in range(2))
        x_TD, gate_up_EDG, *others = floats
        theirs = run(torch_mlp, [x_TD, halves(gate_up_EDG), *others], experts_TK, grad_TD)
        exact_theirs = [halves(value) if value.shape == gate_up_EDG.shape else value for value in exact]
        names = ("out", "d x", "d gate_up", "d down", "d weights")
        for name, one, same, wanted, other, as_theirs in zip(
            names, mine, again, exact, theirs, exact_theirs, strict=True
        ):
            error, peer = relative_error(one, wanted), relative_error(other, as_theirs)
            say(f"error of {name:10} {error:.2e}, torch {peer:.2e}")
            assert error <= 2 * peer, name
            assert torch.equal(one, same), f"{name}: two runs differ"


def measure(shape: Shape, say: Say, *, peers: bool) -> None:
    *floats, experts_TK = inputs(shape)
    grad_TD = torch.randn_like(floats[0])
    say(f"== {shape.name}: T {shape.T}, D {shape.D}, F {shape.F}, E {shape.E}, K {shape.K}")
    _whole(shape, floats, experts_TK, grad_TD, say, peers=peers)
    torch.cuda.empty_cache()
    _parts(shape, floats, experts_TK, grad_TD, say)
    torch.cuda.empty_cache()


def _whole(
    shape: Shape, floats: list[Tensor], experts_TK: Tensor, grad_TD: Tensor, say: Say, *, peers: bool
) -> None:
    x_TD, gate_up_EDG, *others = floats
    layers: dict[str, tuple[Mlp, list[Tensor]]] = {"headrace": (moe_mlp, floats)}
    if peers:
        theirs = [x_TD, halves(gate_up_EDG), *others]
        layers |= {"torch eager": (torch_mlp, theirs), "torch compiled": (torch.compile(torch_mlp), theirs)}
    calls: dict[str, Callable[[], object]] = {DENSE: Dense()}
    kept = {}
    for name, (mlp, values) in layers.items():
        leaves = [value.detach().requires_grad_() for value in values]

        def forward(mlp: Mlp = mlp, leaves: list[Tensor] = leaves) -> Tensor:
            return mlp(*leaves, experts_TK)  # type: ignore[call-arg]

        def both(forward: Callable[[], Tensor] = forward, leaves: list[Tensor] = leaves) -> None:
            torch.autograd.grad(forward(), leaves, grad_TD)

        both()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        out = forward()
        kept[name] = torch.cuda.memory_allocated() - before - out.nbytes + x_TD.nbytes
        del out
        calls |= {f"{name}, forward": forward, f"{name}, both": both}
    times = in_turns(calls)
    rate = Dense.rate(times[DENSE])
    say(f"R, the rate of a dense bf16 product of 8192^3: {rate / 1e12:.0f} TFLOP/s")
    least = 2 * (shape.D + 2 * shape.F * shape.K) * shape.T
    for name in layers:
        ahead, whole = times[f"{name}, forward"], times[f"{name}, both"]
        say(
            f"{name:15} forward {shape.forward_flops / ahead * 1e3 / rate:.3f} R ({ahead:.2f} ms)   forward+backward "
            f"{3 * shape.forward_flops / whole * 1e3 / rate:.3f} R ({whole:.2f} ms)   activations "
            f"{kept[name] / least:.3f} of 2(D + 2FK) bytes a token"
        )


def _parts(shape: Shape, floats: list[Tensor], experts_TK: Tensor, grad_TD: Tensor, say: Say) -> None:
    x_TD, gate_up_EDG, down_EFD, weights_TK = floats
    config = config_for(shape.D, shape.F, x_TD.device)
    order = sort_on_device(experts_TK, shape.E)
    weights_S = by_place(weights_TK, order.places_TK)
    h_SG, act_SF = up(x_TD, gate_up_EDG, order, config.up)
    y_SD = rows_times_expert(act_SF, down_EFD, order.ends_E, config.down)
    d_h_SG, _, _ = through_swiglu(grad_TD, down_EFD, h_SG, weights_S, order, config.back)
    thirds = {"up": 2, "down": 1, "back": 1, "d input": 2, "d gate_up": 2, "d down": 1}
    times = in_turns(
        {
            DENSE: Dense(),
            "up": lambda: up(x_TD, gate_up_EDG, order, config.up),
            "down": lambda: rows_times_expert(act_SF, down_EFD, order.ends_E, config.down),
            "back": lambda: through_swiglu(grad_TD, down_EFD, h_SG, weights_S, order, config.back),
            "d input": lambda: rows_times_expert(
                d_h_SG, gate_up_EDG, order.ends_E, config.d_input, transpose=True
            ),
            "d gate_up": lambda: expert_products(x_TD, d_h_SG, order, config.d_gate_up, gather_a=True),
            "d down": lambda: expert_products(act_SF, grad_TD, order, config.d_down, gather_b=True),
            "order": lambda: sort_on_device(experts_TK, shape.E),
            "combine": lambda: combine(y_SD, order.places_TK, weights_TK),
        }
    )
    rate = Dense.rate(times[DENSE])
    for name, part in thirds.items():
        share = part * shape.forward_flops / 3 / times[name] * 1e3 / rate
        say(f"  {name:10} {times[name]:7.3f} ms  {share:.3f} R")
    moved = y_SD.nbytes + x_TD.nbytes
    say(f"  {'order':10} {times['order']:7.3f} ms")
    say(f"  {'combine':10} {times['combine']:7.3f} ms  {moved / times['combine'] / 1e9:.2f} TB/s")
