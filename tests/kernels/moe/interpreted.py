"""Checks that `test_op.py` runs in Triton's interpreter, which is chosen when Triton is imported.

fp32, since the interpreter's bf16 products are wrong; small blocks, so that every loop and mask is met.
"""

from __future__ import annotations

import json
import traceback
from typing import Any, cast

import torch
from torch import Tensor

from headrace.kernels.moe import op
from headrace.kernels.moe.order import sort_by_expert
from headrace.kernels.moe.reference import moe_mlp_reference
from headrace.kernels.moe.sort import sort_on_device
from headrace.kernels.moe.tuned import Blocks, Config

_SQUARE = Blocks(m=16, n=32, k=16, group=2)
SMALL = Config(
    up=_SQUARE,
    down=Blocks(m=16, n=32, k=16, group=3, persistent=True),
    back=_SQUARE,
    d_input=Blocks(m=32, n=16, k=16, group=2),
    d_gate_up=_SQUARE,
    d_down=Blocks(m=32, n=16, k=16, group=2),
)


def inputs(T: int, D: int, F: int, E: int, K: int, *, last_used: int | None = None) -> tuple[Tensor, ...]:
    """x, gate_up, down, weights, experts; experts from `last_used` on get nothing."""
    used = last_used or E
    x_TD = torch.randn(T, D)
    gate_up_EDG = torch.randn(E, D, 2 * F) * D**-0.5
    down_EFD = torch.randn(E, F, D) * F**-0.5
    weights_TK = torch.rand(T, K)
    experts_TK = torch.stack([torch.randperm(used)[:K] for _ in range(T)]) if T else torch.zeros(0, K).long()
    return x_TD, gate_up_EDG, down_EFD, weights_TK, experts_TK


def compare(*arguments: Tensor) -> None:
    x_TD, gate_up_EDG, down_EFD, weights_TK, experts_TK = arguments
    floats = (x_TD, gate_up_EDG, down_EFD, weights_TK)
    probe_TD = torch.randn_like(floats[0])
    x, gate_up, down, weights = exact = [value.double().requires_grad_() for value in floats]
    expected = moe_mlp_reference(x, gate_up, down, weights, experts_TK)
    wanted = torch.autograd.grad((expected * probe_TD).sum(), exact)

    x, gate_up, down, weights = mine = [value.clone().requires_grad_() for value in floats]
    out_TD = op.moe_mlp(x, gate_up, down, weights, experts_TK)
    found = torch.autograd.grad((out_TD * probe_TD).sum(), mine)
    torch.testing.assert_close(out_TD.double(), expected, rtol=1e-5, atol=1e-5)
    for name, one, other in zip(("x", "gate_up", "down", "weights"), found, wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=2e-5, msg=name)


def ragged() -> None:
    compare(*inputs(37, 32, 32, 5, 2))


def empty_experts() -> None:
    compare(*inputs(21, 32, 16, 9, 2, last_used=3))


def odd_widths() -> None:
    compare(*inputs(19, 40, 48, 3, 3))


def one_expert() -> None:
    compare(*inputs(33, 16, 16, 1, 1))


def no_tokens() -> None:
    compare(*inputs(0, 16, 16, 4, 2))


def poison() -> None:
    """Whatever fresh memory holds, it reaches no result: every element is written, and none read before."""
    fill: Any = Tensor.new_empty

    def poisoned(self: Tensor, *size: Any, **options: Any) -> Any:
        fresh = fill(self, *size, **options)
        return fresh.fill_(float("nan")) if fresh.is_floating_point() else fresh.fill_(-(2**31) + 1)

    cast("Any", Tensor).new_empty = poisoned
    compare(*inputs(29, 40, 16, 6, 2, last_used=4))


def order() -> None:
    """Slots come in the order of torch's stable sort, over several blocks and a last one that is not full."""
    for T, K, E in ((1, 1, 1), (100, 3, 7), (128, 2, 2), (333, 2, 64)):
        experts_TK = torch.stack([torch.randperm(E)[:K] for _ in range(T)])
        for found, wanted in zip(sort_on_device(experts_TK, E), sort_by_expert(experts_TK, E), strict=True):
            torch.testing.assert_close(found, wanted)


def operator() -> None:
    """The fake implementations say the shapes and types, and the gradient is registered as torch asks."""
    x_TD, gate_up_EDG, down_EFD, weights_TK, experts_TK = inputs(11, 16, 16, 3, 2)
    floats = [value.requires_grad_() for value in (x_TD, gate_up_EDG, down_EFD, weights_TK)]
    torch.library.opcheck(op._forward, (*floats, experts_TK))


CHECKS = (
    order,
    ragged,
    empty_experts,
    odd_widths,
    one_expert,
    no_tokens,
    operator,
    poison,
)  # the last leaves a trap behind


def main() -> None:
    """Prints, as JSON, what each check raised."""
    cast("Any", op).config_for = lambda *_: SMALL
    failures = {}
    for check in CHECKS:
        torch.manual_seed(0)
        try:
            check()
        except Exception:  # noqa: BLE001 all of it is for the test to show
            failures[check.__name__] = traceback.format_exc()
        else:
            failures[check.__name__] = ""
    print(json.dumps(failures))


if __name__ == "__main__":
    main()
