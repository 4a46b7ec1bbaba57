"""The parts of the demo that decide whether it succeeds: they must be able to say no."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo import corpus, equality
from examples.demo.__main__ import Demo
from examples.demo.jobs import descendants
from examples.demo.report import Series, loss_plot
from examples.demo.steps import Steps


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"x = 1\r\n", "x = 1\n"),
        ("\ufeffs = 'é'\n".encode(), "s = 'é'\n"),
        ("# -*- coding: latin-1 -*-\ns = 'é'\n".encode("latin-1"), "# -*- coding: latin-1 -*-\ns = 'é'\n"),
        (b"", ""),
    ],
)
def test_a_source_file_is_decoded_as_python_decodes_it(source: bytes, text: str) -> None:
    assert corpus.decode(source) == text


@pytest.mark.parametrize(
    "source", [b"# coding: uft-8\n", b"x = 1\ny = '\xff'\nz = 2\n", b"\xef\xbb\xbf# coding: latin-1\n"]
)
def test_a_source_file_that_python_refuses_is_refused(source: bytes) -> None:
    with pytest.raises((SyntaxError, UnicodeError)):
        corpus.decode(source)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_a_split_keeps_every_document_in_order(count: int) -> None:
    documents = [corpus.Document(str(number), "") for number in range(count)]
    parts = corpus.split(documents, 2)
    assert [document for part in parts for document in part] == documents
    assert len(parts[0]) - len(parts[1]) in (0, 1)


def rows(*losses: float, first: int = 0) -> list[equality.Row]:
    return [{"step": step, "loss": loss, "grad_norm": 1.0} for step, loss in enumerate(losses, first)]


def test_runs_that_differ_in_the_last_bit_of_one_loss_are_not_equal(tmp_path: Path) -> None:
    for name, loss in (("a", 0.1 + 0.2), ("b", 0.3)):
        (tmp_path / name).mkdir()
        text = "".join(json.dumps(row) + "\n" for row in rows(1.0, loss))
        (tmp_path / name / "metrics.jsonl").write_text(text)
    a, b = (equality.read_metrics(tmp_path / name) for name in "ab")
    assert equality.compare(a, a, equality.RESULT).equal
    found = equality.compare(a, b, equality.RESULT)
    assert not found.equal
    assert "step 1: loss is 0.3" in found.differences[0]


def test_a_replayed_step_is_compared_each_time_it_is_told() -> None:
    again = rows(1.0, 2.0) + rows(2.5, 3.0, first=1)
    found = equality.compare(rows(1.0, 2.0, 3.0), again, equality.RESULT)
    assert (found.steps, found.tellings, len(found.differences)) == (3, 4, 1)


def test_a_step_that_the_reference_has_not_is_a_difference_and_nothing_is_not_equality() -> None:
    assert not equality.compare(rows(1.0), rows(1.0, 2.0), equality.RESULT).equal
    assert not equality.compare(rows(1.0), [], equality.RESULT).equal


def test_what_a_user_added_to_the_output_of_an_earlier_demo_survives_the_next(tmp_path: Path) -> None:
    for name in ("runs/mine/metrics.jsonl", "runs/whole/metrics.jsonl", "datasets/parquet/manifest.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    Demo(tmp_path)
    assert [
        path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*")) if path.is_file()
    ] == ["runs/mine/metrics.jsonl"]


def test_every_process_below_one_is_found() -> None:
    child = "import subprocess, sys; print(0, flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"0\n"
    found = descendants(process.pid)
    assert len(found) == 1
    assert descendants(os.getpid()).count(found[0]) == 1
    process.communicate()


def test_one_check_that_fails_fails_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps(total=1)
    steps.begin("one")
    verdicts = [steps.succeeded]
    for claim, holds in (("holds", True), ("does not", False), ("holds again", True)):
        steps.check(claim, holds)
        verdicts.append(steps.succeeded)
    assert verdicts == [False, True, False, False]
    assert "FAILED  does not" in capsys.readouterr().out


def test_the_plot_draws_each_loss_inside_its_frame() -> None:
    plot = loss_plot([Series("line", rows(3.0, 1.0)), Series("dot", rows(2.0, first=1))])
    assert 'points="48.0,48.0 712.0,252.0"' in plot
    assert '<circle cx="712.0" cy="150.0"' in plot
