import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernels.locate import epoch_position, ids_in_lane


@given(st.integers(0, 500), st.integers(1, 50), st.data())
def test_ids_in_a_lane_are_counted(end: int, lanes: int, data: st.DataObject) -> None:
    lane = data.draw(st.integers(0, lanes - 1))
    assert ids_in_lane(end, lane, lanes) == sum(i % lanes == lane for i in range(end))


@given(st.integers(1, 60), st.integers(1, 90), st.integers(1, 20), st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_every_epoch_holds_every_position_once_whatever_the_lanes(
    num_sequences: int, lanes: int, window: int, key: int
) -> None:
    for epoch in range(3):
        seen = []
        for ordinal in range(epoch * num_sequences, (epoch + 1) * num_sequences):
            found, position = epoch_position(
                ordinal // lanes, ordinal % lanes, lanes, num_sequences, window, np.uint64(key)
            )
            assert found == epoch
            seen.append(position)
        assert sorted(seen) == list(range(num_sequences))


def test_a_lane_of_an_epoch_is_one_contiguous_run() -> None:
    """Locality: what a lane reads in an epoch lies together, so that a rank needs its own shards only."""
    num_sequences, lanes, window = 1003, 12, 16
    for epoch in range(4):
        for lane in range(lanes):
            ordinals = range(epoch * num_sequences, (epoch + 1) * num_sequences)
            positions = sorted(
                epoch_position(n // lanes, lane, lanes, num_sequences, window, np.uint64(1))[1]
                for n in ordinals
                if n % lanes == lane
            )
            assert positions == list(range(positions[0], positions[0] + len(positions)))


def test_a_window_is_drained_before_the_next_one_begins() -> None:
    num_sequences, window = 1000, 32
    positions = [
        epoch_position(n, 0, 1, num_sequences, window, np.uint64(9))[1] for n in range(num_sequences)
    ]
    spread = [abs(position - index) for index, position in enumerate(positions)]
    assert max(spread) < window
    assert sum(position != index for index, position in enumerate(positions)) > 900
