"""The kernels against their definition, in Triton's interpreter where there is no GPU.

The interpreter is chosen when Triton is imported, so it has a process of its own (`interpreted.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headrace.kernels.moe.glu import join, split
from headrace.kernels.moe.order import sort_by_expert
from headrace.kernels.moe.reference import moe_mlp_reference

pytest.importorskip("triton", reason="triton is not installed: pip install triton")

INTERPRETED = Path(__file__).with_name("interpreted.py")


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(INTERPRETED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "check",
    ["order", "ragged", "empty_experts", "odd_widths", "one_expert", "no_tokens", "poison", "operator"],
)
def test_kernels_equal_their_definition_forward_and_backward(failures: dict[str, str], check: str) -> None:
    assert not failures[check], failures[check]


def test_definition_is_a_weighted_sum_of_swiglu_networks() -> None:
    x_TD = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    gate_DF = torch.zeros(2, 16, dtype=torch.float64)
    up_DF, down_EFD = torch.zeros_like(gate_DF), torch.zeros(1, 16, 2, dtype=torch.float64)
    gate_DF[0, 3], up_DF[:, 3], down_EFD[0, 3] = 1.0, torch.tensor([0.5, 0.25]), torch.tensor([2.0, -1.0])
    gate_up_EDG = join(gate_DF, up_DF)[None]
    out_TD = moe_mlp_reference(
        x_TD, gate_up_EDG, down_EFD, torch.tensor([[0.5]], dtype=torch.float64), torch.tensor([[0]])
    )
    silu = 1 / (1 + torch.exp(torch.tensor(-1.0, dtype=torch.float64)))
    torch.testing.assert_close(out_TD, 0.5 * silu * torch.tensor([[2.0, -1.0]], dtype=torch.float64))


def test_empty_experts_repeat_the_end_before_them() -> None:
    order = sort_by_expert(torch.tensor([[3, 1], [1, 3], [3, 5]]), num_experts=7)
    assert order.ends_E.tolist() == [0, 2, 2, 5, 5, 6, 6]
    assert order.tokens_S.tolist() == [0, 1, 0, 1, 2, 2]
    assert order.places_TK.tolist() == [[2, 0], [1, 3], [4, 5]]


def test_gate_and_up_lie_in_turns_and_come_apart_again() -> None:
    gate, up = torch.arange(64).view(2, 32), 100 + torch.arange(64).view(2, 32)
    joined = join(gate, up)
    assert joined[0].tolist() == [*range(16), *range(100, 116), *range(16, 32), *range(116, 132)]
    assert all(map(torch.equal, split(joined), (gate, up)))
