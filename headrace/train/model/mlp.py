"""SwiGLU (arXiv:2002.05202): the activation of every feed-forward part, dense or expert."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


def swiglu(gate_up: Tensor) -> Tensor:
    """[..., 2F] -> [..., F]: silu of the first half times the second."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


class MLP(nn.Module):
    """x_ND -> [N, D] through a hidden width of `hidden`."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x_ND: Tensor) -> Tensor:
        return self.down(swiglu(self.gate_up(x_ND)))  # type: ignore[no-any-return]
