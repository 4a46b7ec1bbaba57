import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.trace import _shown_lines
from headrace.dataeng.plan import Plan
from tests.cli.conftest import BATCH, Command
from tests.corpus import END_OF_TEXT, make_texts


def pieces(headrace: Command) -> list[dict[str, Any]]:
    return [piece for sample in json.loads(headrace.out) for piece in sample["pieces"]]


def test_a_step_is_traced_to_documents_whose_text_holds_its_tokens(headrace: Command, run: Path) -> None:
    texts = {f"document-{n}": text + END_OF_TEXT for n, text in enumerate(make_texts(200))}
    assert headrace("trace", run, "--step", "4", "--json") == 0
    samples = json.loads(headrace.out)
    assert [s["sample"] for s in samples] == list(range(4 * BATCH, 5 * BATCH))
    for sample in samples:
        assert sum(len(p["ids"]) for p in sample["pieces"]) == 32
        column = 0
        for piece in sample["pieces"]:
            assert piece["column"] == column
            column += len(piece["ids"])
            assert piece["file"].endswith("source.parquet")
            assert piece["document_id"] == f"document-{piece['row'] + 50 * piece['row_group']}" or (
                piece["document_id"] == f"document-{piece['row']}"
            )
            # A piece may begin or end inside a character; what lies between is the document's own text.
            assert piece["text"].strip("�") in texts[piece["document_id"]]
            if piece["token_end"] == piece["document_tokens"]:
                assert piece["text"].endswith(END_OF_TEXT)


def test_ids_that_no_sample_has_are_refused(headrace: Command, run: Path) -> None:
    for ids in ("-1", str(2**62), str(2**63), f"1,{2**64}", str(10**30), "x", "1.5", ""):
        assert headrace("trace", run, "--sample", ids) == 2
        assert headrace("plan", "--plan", run / "plan.json", f"--locate={ids}") == (2 if ids else 0)


def test_the_ranks_of_a_step_together_are_the_step(headrace: Command, run: Path) -> None:
    seen = []
    for rank in range(2):
        assert headrace("trace", run, "--step", "5", "--rank", str(rank), "--json") == 0
        found = [s["sample"] for s in json.loads(headrace.out)]
        assert {s % 2 for s in found} == {rank}
        seen += found
    assert sorted(seen) == list(range(5 * BATCH, 6 * BATCH))


def test_a_person_sees_file_row_and_a_line_of_text(headrace: Command, run: Path) -> None:
    assert headrace("trace", run, "--step", "0", "--limit", "2") == 0
    assert "step 0: samples 0 to 7, digest" in headrace.out
    assert headrace.out.count("\nsample ") == 2
    assert "source.parquet row group" in headrace.out
    assert "mill" in headrace.out
    assert "6 more samples" in headrace.out


@pytest.mark.parametrize(
    ("text", "cut", "shown"),
    [
        ("", False, []),
        ("a\n\nb\nc\nd", False, ["a", "b", "c"]),
        ("nd of a\nb\n", True, ["b"]),
        ("nd of a", True, ["nd of a"]),
        ("nd of a\n \n", True, ["nd of a"]),
    ],
)
def test_the_lines_shown_are_whole_where_there_are_whole_ones(text: str, cut: bool, shown: list[str]) -> None:
    assert _shown_lines(text, cut=cut) == shown


def test_a_sample_is_traced_through_a_plan_without_a_run(headrace: Command, run: Path) -> None:
    assert headrace("trace", run / "plan.json", "--sample", "3", "--json") == 0
    by_plan = pieces(headrace)
    assert headrace("trace", run, "--sample", "3", "--json") == 0
    assert pieces(headrace) == by_plan


def test_what_cannot_be_traced_is_refused(headrace: Command, run: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["--step", "6"], "which has steps 0 to 5"),
        (["--step", "-1"], "is not in the ledger"),
        (["--step", "1", "--rank", "2"], "ranks 0 to 1"),
        (["--sample", "1", "--rank", "0"], "--rank goes with --step"),
        (["--sample", "x"], "expected sample ids"),
        (["--sample", str(2**70)], "must be in [0, 2**62)"),
        (["--sample", f"{2**62 - 1},{2**62}"], "must be in [0, 2**62)"),
        (["--sample", "1", "--limit", "-1"], "expected 0 (all) or more"),
    ):
        assert headrace("trace", run, *arguments) == 2
        assert message in headrace.err
    assert headrace("trace", tmp_path / "nothing", "--sample", "1") == 2
    assert "neither a run directory nor a plan file" in headrace.err


def test_law_7_altered_lineage_is_refused_by_name(headrace: Command, run: Path, tokenized: Path) -> None:
    plan = Plan.load(run / "plan.json")
    dataset = plan.sources[0].dataset
    assert dataset is not None
    name = dataset.shards.row(int(plan.locate([0]).shard[0])).lineage
    path = tokenized / name
    good = path.read_bytes()
    try:
        path.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
        assert headrace("trace", run, "--sample", "0") == 1
        assert name in headrace.err
        path.unlink()
        assert headrace("trace", run, "--sample", "0") == 1
        assert "is missing" in headrace.err
    finally:
        path.write_bytes(good)
