import json
import zlib
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DamageError
from headrace.manifests.ledger import Begin, Ledger, Record, Step, audit, decode, encode, read_ledger

BATCH = 4


def begin(attempt: int, first_step: int) -> Begin:
    return Begin(
        attempt=attempt,
        plan_hash="p",
        first_step=first_step,
        next_sample=first_step * BATCH,
        world_size=1,
        global_batch_size=BATCH,
    )


def step(attempt: int, number: int, digest: str = "") -> Step:
    return Step(
        attempt=attempt,
        step=number,
        first_sample=number * BATCH,
        end_sample=number * BATCH + BATCH,
        digest=digest or f"{number:016x}",
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """A run that is killed and restarted from an earlier step any number of times."""
    records: list[Record] = []
    at = 0
    for attempt in range(1, draw(st.integers(1, 5)) + 1):
        at = draw(st.integers(0, at))
        records.append(begin(attempt, at))
        for _ in range(draw(st.integers(0, 6))):
            records.append(step(attempt, at))
            at += 1
    return records


@given(histories())
def test_law_8_a_run_with_any_restarts_is_audited_clean(records: list[Record]) -> None:
    report = audit(records)
    assert report.problems == []
    assert [s.step for s in report.steps] == list(range(len(report.steps)))


@given(histories(), st.data())
def test_law_8_a_lost_step_is_found(records: list[Record], data: st.DataObject) -> None:
    """Any record but the end of an attempt (nothing can tell that from a kill one step earlier)."""
    inner = [
        i
        for i in range(len(records) - 1)
        if isinstance(records[i], Step) and isinstance(records[i + 1], Step)
    ]
    if not inner:
        return
    lost = data.draw(st.sampled_from(inner))
    assert not audit(records[:lost] + records[lost + 1 :]).ok


@given(histories(), st.data())
def test_law_8_a_repeated_step_is_found(records: list[Record], data: st.DataObject) -> None:
    steps = [i for i, record in enumerate(records) if isinstance(record, Step)]
    if not steps:
        return
    at = data.draw(st.sampled_from(steps))
    assert not audit([*records[: at + 1], records[at], *records[at + 1 :]]).ok


def test_law_8_a_replay_with_other_tokens_is_found() -> None:
    report = audit([begin(1, 0), step(1, 0), step(1, 1), begin(2, 1), step(2, 1, "f" * 16)])
    assert report.replayed_steps == 1
    assert "other tokens" in report.problems[0]


def test_a_hole_and_an_overlap_say_which_samples() -> None:
    hole = Step(attempt=1, step=1, first_sample=6, end_sample=10, digest="0" * 16)
    assert "samples 4 to 5 were never consumed" in audit([begin(1, 0), step(1, 0), hole]).problems[0]
    twice = Step(attempt=1, step=1, first_sample=2, end_sample=6, digest="0" * 16)
    assert "samples 2 to 3 were consumed twice" in audit([begin(1, 0), step(1, 0), twice]).problems[0]


def test_a_restart_with_another_batch_size_is_clean_if_the_samples_join() -> None:
    wider = Step(attempt=2, step=1, first_sample=4, end_sample=20, digest="0" * 16)
    assert audit([begin(1, 0), step(1, 0), step(1, 1), begin(2, 1), wider]).ok


@given(histories())
def test_records_survive_the_file(records: list[Record]) -> None:
    assert [decode(encode(record)) for record in records] == records


@given(st.integers(0, 255), st.data())
def test_any_changed_byte_makes_a_line_no_record(value: int, data: st.DataObject) -> None:
    line = bytearray(encode(step(1, 7)))
    at = data.draw(st.integers(0, len(line) - 2))
    if line[at] == value:
        return
    line[at] = value
    assert decode(bytes(line)) is None


def write_three(path: Path) -> bytes:
    ledger = Ledger.open(path)
    ledger.begin(plan_hash="p", first_step=0, next_sample=0, world_size=1, global_batch_size=BATCH)
    for number in range(3):
        ledger.step(number, number * BATCH, number * BATCH + BATCH, number)
    ledger.close()
    return path.read_bytes()


@settings(deadline=None)
@given(st.integers(1, 40))
def test_a_torn_last_line_is_cut_off_and_the_rest_kept(
    tmp_path_factory: pytest.TempPathFactory, lost: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    whole = write_three(path)
    path.write_bytes(whole[:-lost])
    assert len(read_ledger(path)) == 3
    ledger = Ledger.open(path)
    assert (
        ledger.begin(plan_hash="p", first_step=2, next_sample=8, world_size=1, global_batch_size=BATCH) == 2
    )
    ledger.step(2, 8, 12, 2)
    ledger.close()
    report = audit(read_ledger(path))
    assert report.ok
    assert len(report.steps) == 3


def test_damage_before_the_last_line_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    whole = bytearray(write_three(path))
    whole[whole.index(b'"step":1') + 7] = ord("9")
    path.write_bytes(whole)
    with pytest.raises(DamageError, match="line 3"):
        read_ledger(path)
    with pytest.raises(DamageError, match="line 3"):
        Ledger.open(path)
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "change",
    [{"step": "1"}, {"step": True}, {"end_sample": 1.0}, {"attempt": None}, {"digest": 7}, {"step": 2**70}],
)
def test_a_record_of_other_types_is_no_record_even_with_a_good_checksum(change: dict[str, object]) -> None:
    body = {"kind": "step", **asdict(step(1, 0)), **change}
    text = json.dumps(body, separators=(",", ":"))
    line = f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'.encode()
    assert decode(encode(step(1, 0))) == step(1, 0)
    assert decode(line) is None
    assert decode(line.replace(b"step", b"stop", 1)) is None


@pytest.mark.parametrize("replaced", [False, True])
def test_a_ledger_that_was_removed_or_replaced_is_not_synced_as_if_it_were_there(
    tmp_path: Path, replaced: bool
) -> None:
    path = tmp_path / "run" / "ledger.jsonl"
    ledger = Ledger.open(path)
    ledger.sync()
    path.unlink()
    if replaced:
        path.touch()
    with pytest.raises(DamageError, match="removed or replaced"):
        ledger.sync()
    ledger.close()
