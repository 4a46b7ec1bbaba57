from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.train.model.attention import Attention, Context
from headrace.train.model.config import ModelConfig
from headrace.train.model.documents import Documents, rows
from headrace.train.model.rope import rotate, rotation

CONFIG = ModelConfig(vocab_size=8, width=32, num_heads=4, num_kv_heads=2)
CPU = torch.device("cpu")


def layout(lengths_of_rows: list[list[int]]) -> Documents:
    """Documents of the given lengths; every row has the same sum."""
    positions = np.array([[p for length in row for p in range(length)] for row in lengths_of_rows])
    lengths = [length for row in lengths_of_rows for length in row]
    return Documents.of(positions, np.cumsum([0, *lengths]).astype(np.int32), CPU)


def attention() -> Attention:
    torch.manual_seed(0)
    return Attention(CONFIG)


def run(module: Attention, x_BTD: torch.Tensor, documents: Documents) -> torch.Tensor:
    by = rotation(documents.positions_BT, CONFIG.channels, CONFIG.rope_base)
    out: torch.Tensor = module(x_BTD, Context.of(documents, by, x_BTD.dtype))
    return out


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_packed_documents_attend_as_if_each_stood_alone(lengths: list[int], random: Random) -> None:
    module = attention()
    other = random.sample(lengths, len(lengths))
    x_BTD = torch.randn(2, sum(lengths), CONFIG.width)
    packed = run(module, x_BTD, layout([lengths, other]))
    for row, row_lengths in enumerate((lengths, other)):
        for piece, out in zip(x_BTD[row].split(row_lengths), packed[row].split(row_lengths), strict=True):
            alone = run(module, piece[None], layout([[len(piece)]]))[0]
            torch.testing.assert_close(out, alone, rtol=1e-5, atol=1e-6)


def test_no_token_sees_a_later_one() -> None:
    module, x_BTD = attention(), torch.randn(1, 6, CONFIG.width)
    before = run(module, x_BTD, layout([[6]]))
    x_BTD[0, 4] += 1
    after = run(module, x_BTD, layout([[6]]))
    assert torch.equal(before[0, :4], after[0, :4])
    assert not torch.allclose(before[0, 5], after[0, 5])


def test_grouped_heads_equal_full_heads_with_repeated_keys_and_values() -> None:
    module, full = attention(), Attention(CONFIG.model_copy(update={"num_kv_heads": 4}))
    full.query, full.output = module.query, module.output
    for name in ("key", "value"):
        weight = getattr(module, name).weight.unflatten(0, (2, CONFIG.channels))
        getattr(full, name).weight.data = weight.repeat_interleave(2, dim=0).flatten(0, 1)
    x_BTD, documents = torch.randn(1, 7, CONFIG.width), layout([[3, 4]])
    torch.testing.assert_close(run(module, x_BTD, documents), run(full, x_BTD, documents))


def test_rotated_products_depend_on_the_distance_of_positions_only() -> None:
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(at: int, other: int) -> float:
        turned = (rotate(x, rotation(torch.tensor([[p]]), 8, 1e4)) for x, p in ((q, at), (k, other)))
        a, b = turned
        return float((a * b).sum())

    assert product(3, 1) == pytest.approx(product(103, 101), abs=1e-4)
    assert product(3, 1) != pytest.approx(product(3, 2), abs=1e-4)


def test_rows_of_a_batch_keep_their_own_boundaries() -> None:
    boundaries = np.array([0, 2, 4, 8, 9, 12], np.int32)
    assert rows(boundaries, 1, 3, 4).tolist() == [0, 4, 5, 8]
    assert rows(boundaries, 0, 1, 4).tolist() == [0, 2, 4]
