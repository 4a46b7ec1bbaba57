from __future__ import annotations

from headrace.dataeng.sources.base import Slice
from headrace.tokenize.config import Progress
from headrace.tokenize.executors.base import Counts
from headrace.tokenize.journal import SourceCounts, UnitRecord
from headrace.tokenize.tracker import Tracker
from headrace.tokenize.units import Unit


def unit(index: int, text_bytes: int) -> Unit:
    return Unit(index=index, slices=(Slice(file=0, num_rows=None, text_bytes=text_bytes),))


def record(index: int, text_bytes: int) -> UnitRecord:
    return UnitRecord(
        unit=index,
        shards=(),
        sources=(SourceCounts(file=0, rows=5, documents=3, rejected=2, tokens=9, text_bytes=text_bytes),),
        rejects={"null": 2},
        rejects_file=None,
        examples=(),
    )


def test_finished_and_open_units_add_up_and_a_unit_begun_again_counts_once() -> None:
    told: list[Progress] = []
    tracker = Tracker([unit(0, 100), unit(1, 300), unit(2, 600)], told.append)
    tracker.done(record(0, 80), resumed=True)
    tracker.open(1, Counts(rows=4, documents=3, rejected=1, tokens=7, text_bytes=150, rejects={"blank": 1}))
    tracker.open(1, Counts(rows=1, documents=1, tokens=2, text_bytes=50))
    last = told[-1]
    assert (last.rows, last.documents, last.rejected, last.tokens, last.text_bytes) == (6, 4, 2, 11, 130)
    assert (last.units_done, last.units_total, last.rejects) == (1, 3, {"null": 2})
    assert (last.share, last.resumed_share, last.resumed_text_bytes) == (0.15, 0.1, 80)


def test_the_share_of_a_job_whose_rows_are_mostly_rejected_still_ends_at_one() -> None:
    told: list[Progress] = []
    tracker = Tracker([unit(0, 100), unit(1, 900)], told.append)
    tracker.done(record(0, 3), resumed=False)
    tracker.done(record(1, 5_000), resumed=False)
    assert told[-1].share == 1.0
    assert told[-1].rejects == {"null": 4}
