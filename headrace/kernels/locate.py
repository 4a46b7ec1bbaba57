"""Sample id -> (source, epoch, position in the epoch): the order of docs/formats/plan.md for a batch of ids.

Legend: L lanes, K sources, G stages. Sample i is lane i % L, position i // L. The lattice names the source; the
number of times the lane drew from it before is the draw d. Draw d of lane l is the source's virtual ordinal
d * L + l, so with a single source the epochs follow each other exactly: ordinal // N is the epoch, and in every
epoch each of the N sequences comes once. An epoch gives lane l a contiguous run of its axis; inside the run,
windows are permuted by a Feistel network. The axis itself is the epoch's permuted shard list (dataeng/order.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.kernels.feistel import permute
from headrace.kernels.jit import njit
from headrace.kernels.lattice import count_at_most, point
from headrace.kernels.mix import derive

_ONE = np.uint64(1)
_LANE_ORDER = np.uint64(0x4C414E4553)  # "LANES": no lane has this number


@njit
def ids_in_lane(end: int, lane: int, lanes: int) -> int:
    """How many ids in [0, end) belong to `lane`."""
    if end <= lane:
        return 0
    return (end - lane - 1) // lanes + 1


@njit
def draws(lane: int, positions: int, offset: np.uint64, low: np.uint64, top: np.uint64) -> int:
    """How many of the lane's first `positions` positions fall into [low, top]."""
    count = count_at_most(np.uint64(lane), np.uint64(positions), offset, top)
    if low > np.uint64(0):
        count -= count_at_most(np.uint64(lane), np.uint64(positions), offset, low - _ONE)
    return np.int64(count)  # type: ignore[return-value]


@njit
def stage_draws(
    start: int,
    end: int,
    lanes: int,
    offset: np.uint64,
    low_K: NDArray[np.uint64],
    top_K: NDArray[np.uint64],
    used_K: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Draws of each lane from each source over the ids [start, end) of one stage: int64 [L, K]."""
    num_sources = len(low_K)
    out_LK = np.zeros((lanes, num_sources), np.int64)
    for lane in range(lanes):
        first, last = ids_in_lane(start, lane, lanes), ids_in_lane(end, lane, lanes)
        for source in range(num_sources):
            if used_K[source]:
                out_LK[lane, source] = draws(lane, last, offset, low_K[source], top_K[source]) - draws(
                    lane, first, offset, low_K[source], top_K[source]
                )
    return out_LK


@njit
def epoch_position(
    draw: int, lane: int, lanes: int, num_sequences: int, window: int, source_key: np.uint64
) -> tuple[int, int]:
    """(epoch, position on the epoch's axis of `num_sequences`) of one draw of one lane."""
    epoch = (draw * lanes + lane) // num_sequences
    before = epoch * num_sequences
    offset = draw - ids_in_lane(before, lane, lanes)
    # The epoch's ordinals are `before` .. `before + N`: every lane holds N // L of them, and the N % L lanes from
    # the first on (cyclically) hold one more. Runs lie on the axis longer ones first, each kind in a keyed order, so
    # that neighbouring lanes, and with them neighbouring ids, read far apart.
    base, longer = num_sequences // lanes, num_sequences % lanes
    epoch_key = derive(source_key, np.uint64(epoch))
    lane_key = derive(epoch_key, _LANE_ORDER)
    turn = (lane - before % lanes) % lanes
    if turn < longer:
        size = base + 1
        start = size * int(permute(np.uint64(turn), np.uint64(longer), lane_key))
    else:
        size = base
        start = longer + size * (
            longer + int(permute(np.uint64(turn - longer), np.uint64(lanes - longer), lane_key))
        )
    # Windows of nearly equal size, none longer than `window`.
    num_windows = (size - 1) // window + 1
    width, wider = size // num_windows, size % num_windows
    if offset < wider * (width + 1):
        index = offset // (width + 1)
        window_start = index * (width + 1)
        width += 1
    else:
        index = wider + (offset - wider * (width + 1)) // width
        window_start = wider + index * width
    key = derive(derive(epoch_key, np.uint64(lane)), np.uint64(index))
    inside = permute(np.uint64(offset - window_start), np.uint64(width), key)
    return epoch, start + window_start + int(inside)


@njit
def locate_in_stage(
    ids_N: NDArray[np.int64],
    stage_start: int,
    lanes: int,
    window: int,
    offset: np.uint64,
    low_K: NDArray[np.uint64],
    top_K: NDArray[np.uint64],
    used_K: NDArray[np.bool_],
    drawn_LK: NDArray[np.int64],
    num_sequences_K: NDArray[np.int64],
    source_key_K: NDArray[np.uint64],
    source_N: NDArray[np.int32],
    epoch_N: NDArray[np.int64],
    position_N: NDArray[np.int64],
) -> None:
    """Fills source, epoch and axis position for ids of one stage.

    drawn_LK: draws of all earlier stages. low/top/used: the sources' intervals in this stage, inclusive.
    """
    for n in range(len(ids_N)):
        lane, position = ids_N[n] % lanes, ids_N[n] // lanes
        u = point(np.uint64(lane), np.uint64(position), offset)
        source = 0
        while not (used_K[source] and u <= top_K[source]):
            source += 1
        low, top = low_K[source], top_K[source]
        draw = drawn_LK[lane, source] + draws(lane, position, offset, low, top)
        first = ids_in_lane(stage_start, lane, lanes)
        if first > 0:
            draw -= draws(lane, first, offset, low, top)
        epoch, axis = epoch_position(draw, lane, lanes, num_sequences_K[source], window, source_key_K[source])
        source_N[n], epoch_N[n], position_N[n] = source, epoch, axis
