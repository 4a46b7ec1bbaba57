import dataclasses
import json
from pathlib import Path

from headrace.manifests.ledger import LEDGER, Step, decode, encode
from tests.cli.conftest import Command


def test_a_restarted_run_is_clean_and_its_tokens_are_read_again(headrace: Command, run: Path) -> None:
    assert headrace("audit", run, "--replay", "100", "--json") == 0
    report = json.loads(headrace.out)
    assert report["ok"]
    assert (report["steps"], report["samples"], report["attempts"]) == (6, 48, 2)
    assert (report["steps_done_again"], report["steps_read_again"]) == (1, 6)
    assert headrace("audit", run, "--replay", "2") == 0
    assert "read again 2 steps" in headrace.out
    assert "clean" in headrace.out


def test_law_8_a_missing_line_ends_with_1(headrace: Command, run: Path) -> None:
    lines = (run / LEDGER).read_bytes().splitlines(keepends=True)
    (run / LEDGER).write_bytes(b"".join(lines[:2] + lines[3:]))
    assert headrace("audit", run) == 1
    assert "samples 8 to 15 were never consumed" in headrace.out
    assert "NOT CLEAN" in headrace.out


def test_law_8_other_data_under_the_same_ids_is_found_by_replay(headrace: Command, run: Path) -> None:
    lines = (run / LEDGER).read_bytes().splitlines(keepends=True)
    record = decode(lines[-1])
    assert isinstance(record, Step)
    lines[-1] = encode(dataclasses.replace(record, digest="0" * 16))
    (run / LEDGER).write_bytes(b"".join(lines))
    assert headrace("audit", run) == 0
    assert headrace("audit", run, "--replay", "1") == 1
    assert "step 5 consumed tokens of digest 0000000000000000" in headrace.out


def test_a_ledger_of_another_plan_is_found(headrace: Command, run: Path, tokenized: Path) -> None:
    assert (
        headrace("plan", tokenized, "--sequence-length", "32", "--seed", "9", "--out", run / "plan.json") == 0
    )
    assert headrace("audit", run) == 1
    assert "the run directory holds plan" in headrace.out


def test_a_damaged_ledger_ends_with_1_and_no_ledger_with_2(
    headrace: Command, run: Path, tmp_path: Path
) -> None:
    data = bytearray((run / LEDGER).read_bytes())
    data[20] ^= 1
    (run / LEDGER).write_bytes(data)
    assert headrace("audit", run) == 1
    assert "line 1 is damaged" in headrace.err
    assert headrace("audit", tmp_path) == 2
    assert "is not a run directory" in headrace.err
    assert headrace("audit", run, "--replay", "-1") == 2
