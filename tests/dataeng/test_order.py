import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace.dataeng.order import EpochOrder, EpochOrders

counts = st.lists(st.integers(0, 9), min_size=1, max_size=30).filter(any).map(lambda c: np.array(c, np.int64))


@given(counts, st.integers(0, 2**64 - 1), st.integers(0, 2**40))
@settings(deadline=None)
def test_an_axis_holds_every_sequence_once_shard_by_shard(
    num_sequences: NDArray[np.int64], key: int, epoch: int
) -> None:
    order = EpochOrder.build(num_sequences, key, epoch)
    shard, sequence = order.locate(np.arange(num_sequences.sum()))
    found = list(zip(shard.tolist(), sequence.tolist(), strict=True))
    expected = [(s, q) for s in order.shards.tolist() for q in range(num_sequences[s])]
    assert found == expected
    assert sorted(order.shards.tolist()) == list(range(len(num_sequences)))


def test_epochs_differ() -> None:
    num_sequences = np.ones(50, np.int64)
    first, second = (EpochOrder.build(num_sequences, 1, epoch).shards.tolist() for epoch in (0, 1))
    assert first != second


def test_orders_are_dropped_past_the_limit_and_built_again_the_same() -> None:
    class Small(EpochOrders):
        LIMIT_BYTES = 4000

    orders = Small()
    num_sequences = np.ones(10, np.int64)
    first = orders.get(0, 0, num_sequences, 1)
    for epoch in range(1, 20):
        orders.get(0, epoch, num_sequences, 1)
    assert orders._bytes <= 4000
    assert (
        len(orders._orders) < 4
    )  # an epoch of ten sequences is 120 bytes of arrays, and Python's objects around them
    again = orders.get(0, 0, num_sequences, 1)
    assert again is not first
    assert again.shards.tolist() == first.shards.tolist()
