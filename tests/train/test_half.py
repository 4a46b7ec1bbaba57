"""bf16 where the arithmetic bears it, fp32 where it does not; the CPU computes both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.loop import build_model
from headrace.train.model.documents import Documents
from headrace.train.model.transformer import Block
from headrace.train.parallel import joined
from tests.train.ranks import on_ranks
from tests.train.tiny import tiny_config, tiny_dataset
from tests.train.workers import take_steps


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("half") / "data")


def dtypes_of_a_pass(place: Place, config: RunConfig) -> dict[str, set[torch.dtype]]:
    """The dtypes that the parts of the model are given and hold, forward and backward."""
    found: dict[str, set[torch.dtype]] = {}

    def note(name: str, *tensors: torch.Tensor) -> None:
        found.setdefault(name, set()).update(tensor.dtype for tensor in tensors)

    def entering_attention(_module: Any, args: Any) -> None:
        x_BTD, context = args
        note("activations", x_BTD)
        note("rotation", *context.rotation)

    def entering_router(module: Any, _args: Any) -> None:
        note("gate", module.gate_ED, module.bias_E)

    def entering_experts(module: Any, _args: Any) -> None:
        note("experts", *module.parameters())

    with joined(place, timeout_seconds=30) as world:
        model = build_model(config, world)
        for block in model.blocks:
            assert isinstance(block, Block)
            block.attention.register_forward_pre_hook(entering_attention)
            block.moe.router.register_forward_pre_hook(entering_router)
            block.moe.experts.register_forward_pre_hook(entering_experts)
        documents = Documents.of(np.arange(8)[None], np.array([0, 8], np.int32), world.device)
        tokens_BT = torch.zeros(1, 8, dtype=torch.int64)
        cross_entropy, stats = model(tokens_BT, documents, tokens_BT)
        note("router losses", stats.balance, stats.z)
        note("cross-entropy", cross_entropy)
        (cross_entropy + stats.z.sum()).backward()
        note("gradients", *(p.grad for p in model.parameters() if p.grad is not None))
        note("parameters", *model.parameters())
    return found


def test_activations_and_experts_are_half_and_all_else_is_exact(dataset: Path) -> None:
    config = tiny_config(dataset, dataset.parent / "run", precision="bf16")
    exact = {"rotation", "gate", "router losses", "cross-entropy", "gradients", "parameters"}
    for found in on_ranks(2, dtypes_of_a_pass, config):
        assert found == {
            "activations": {torch.bfloat16},
            "experts": {torch.bfloat16},
            **{name: {torch.float32} for name in exact},
        }


def test_half_precision_follows_fp32_and_not_exactly(dataset: Path) -> None:
    """Same samples, a loss that is near: the first to the rounding of one pass, the later ones after AdamW steps."""
    exact, half = (
        on_ranks(2, take_steps, tiny_config(dataset, dataset.parent / "run", precision=precision), 3)[0]
        for precision in ("fp32", "bf16")
    )
    assert half.digests == exact.digests
    assert half.losses[0] == pytest.approx(exact.losses[0], abs=2e-3)
    assert half.losses == pytest.approx(exact.losses, abs=2e-2)
    assert half.losses != exact.losses
    assert {tensor.dtype for tensor in half.state.values()} == {torch.float32}
