from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, InputError, UsageError
from headrace.kernels.words import words_reference
from headrace.tokenize.filters import decontamination
from headrace.tokenize.filters.config import Decontamination, FilterConfig
from headrace.tokenize.filters.decontamination import DecontaminationFilter, read_evaluations
from headrace.tokenize.filters.prepare import prepare

QUESTION = "A mill has three wheels, each of which turns twelve times a minute; how often do all of them turn in an hour?"
SHORT = "Which of the four mills turns the fastest?"


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return write_jsonl(tmp_path / "mills.jsonl", [{"text": QUESTION}, {"text": SHORT}, {"text": "yes"}])


def reasons(places: Sequence[str], texts: Sequence[str], **how: Any) -> list[str | None]:
    judge = DecontaminationFilter(read_evaluations(Decontamination(places=tuple(places), **how)))
    verdict = judge.judge(pa.array(texts, pa.large_string())).tolist()
    return [judge.reasons[found - 1] if found else None for found in verdict]


def test_a_document_with_a_piece_of_an_evaluation_is_rejected_however_it_is_set(questions: str) -> None:
    found = "contaminated:mills.jsonl"
    piece = "three wheels each of which turns twelve times a minute how often do"
    assert reasons(
        [questions],
        [
            f"Answers to the exam. {QUESTION} 2,160.",
            QUESTION.upper().replace(" ", "\n\n"),
            f"x {piece} y",
            f"x {piece.removesuffix(' do')} y",  # twelve words
            f"He asked: {SHORT.replace('four', '- four -')}",
            "Which of the four mills turns the slowest?",
            "yes",
            "",
        ],
    ) == [found, found, found, None, found, None, None, None]


def test_each_reason_names_the_evaluation_and_the_first_place_that_has_a_run_is_its_owner(
    tmp_path: Path, questions: str
) -> None:
    """The runs that two places share are the earlier one's."""
    other = write_jsonl(tmp_path / "other mills.jsonl", [{"text": QUESTION}, {"text": "one two " * 9}])
    documents = [QUESTION, "one two " * 9]
    assert reasons([questions, other], documents) == [
        "contaminated:mills.jsonl",
        "contaminated:other_mills.jsonl",
    ]
    assert reasons([other, questions], documents) == ["contaminated:other_mills.jsonl"] * 2
    (tmp_path / "again").mkdir()
    same_name = write_jsonl(tmp_path / "again" / "mills.jsonl", [{"text": "one two " * 9}])
    assert reasons([questions, same_name], documents) == ["contaminated:mills.jsonl"] * 2


def test_a_share_of_the_words_may_be_let_through(questions: str) -> None:
    words = len(words_reference(QUESTION))
    around = " ".join(["other"] * words)
    assert reasons([questions], [f"{QUESTION} {around}"], share=0.5) == [None]
    assert reasons([questions], [f"{QUESTION} {around}"], share=0.49) == ["contaminated:mills.jsonl"]


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_two_texts_are_told_apart_as_sets_of_runs_do(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    word = st.sampled_from(["a", "b", "水"])
    sentence = st.lists(word, min_size=0, max_size=7).map(" ".join)
    known = data.draw(st.lists(sentence.filter(lambda text: len(text.split()) >= 3), min_size=1, max_size=3))
    documents = data.draw(st.lists(sentence, max_size=4))
    place = write_jsonl(tmp_path_factory.mktemp("e") / "e.jsonl", [{"text": text} for text in known])

    def runs(text: str) -> set[tuple[str, ...]]:
        words = words_reference(text)
        size = min(3, len(words))
        return {tuple(words[begin : begin + size]) for begin in range(len(words) - size + 1)}

    there = set[tuple[str, ...]]().union(*(runs(text) for text in known))
    expected = [
        "contaminated:e.jsonl" if any(run in there for run in runs(text) if len(run) == 3) else None
        for text in documents
    ]
    assert reasons([place], documents, ngram=3) == expected


def test_columns_formats_and_text_files(tmp_path: Path) -> None:
    answer = "because the water that turns the first wheel turns the second one too"
    table = pa.table({"question": [QUESTION, "short"], "answer": pa.array([None, answer])})
    pq.write_table(table, tmp_path / "e.parquet")
    (tmp_path / "e.txt").write_text(f"{SHORT}\n{answer.upper()}\n")
    documents = [QUESTION, answer]
    both = reasons([str(tmp_path / "e.parquet")], documents, columns=("question", "answer"))
    assert both == ["contaminated:e.parquet"] * 2
    one = reasons([str(tmp_path / "e.parquet")], documents, columns=("question",))
    assert one == ["contaminated:e.parquet", None]
    assert reasons([str(tmp_path / "e.txt")], documents) == [None, "contaminated:e.txt"]


def test_what_is_looked_for_stands_in_the_manifest_and_where_it_lies_does_not(
    tmp_path: Path, questions: str
) -> None:
    described = prepare(FilterConfig(decontamination=Decontamination(places=(questions,)))).described()
    digest = hashlib.sha256()
    for text in (QUESTION, SHORT, "yes"):
        digest.update(len(text).to_bytes(8, "little") + text.encode())
    assert described == {
        "decontamination": {
            "ngram": 13,
            "share": 0.0,
            "columns": [],
            "evaluations": [
                {"name": "mills.jsonl", "texts": 3, "too_short": 1, "sha256": digest.hexdigest()}
            ],
            "runs": len(words_reference(QUESTION)) - 12 + 1,
        }
    }
    assert str(tmp_path) not in json.dumps(described)


@pytest.mark.parametrize(
    ("content", "how", "message"),
    [
        (None, {}, r"--decontaminate .*e\.jsonl: .*no such file"),
        ('{"question": "x"}\n', {}, "name the text with --decontaminate-column: one of 'question'"),
        ('{"question": "x"}\n', {"columns": ("question", "answer")}, "no column 'answer'"),
        ('{"text": "too short"}\n', {}, "none of its 1 texts has 8 words"),
        ('{"text": "x"}\n{"text": \n', {}, "row 1: not_json. An evaluation of which a part cannot be read"),
        ('{"text": "x"}\n{"text": ["a", "b"]}\n', {}, "row 1: not_text"),
    ],
)
def test_an_evaluation_that_cannot_be_read_whole_is_refused(
    tmp_path: Path, content: str | None, how: dict[str, Any], message: str
) -> None:
    if content is not None:
        (tmp_path / "e.jsonl").write_text(content)
    with pytest.raises(InputError, match=message):
        reasons([str(tmp_path / "e.jsonl")], [], **how)


def test_more_runs_than_fit_the_memory_are_refused(questions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decontamination, "MAX_RUNS", 3)
    with pytest.raises(InputError, match="different runs of 13 words or fewer; 3 are the most"):
        reasons([questions], [])


def test_runs_that_are_found_again_and_again_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decontamination, "MAX_RUNS", 30)
    places = [
        write_jsonl(tmp_path / f"{number}.jsonl", [{"text": QUESTION}, {"text": SHORT}])
        for number in range(9)
    ]
    assert reasons(places, [QUESTION, f"... {SHORT}", "x"]) == ["contaminated:0.jsonl"] * 2 + [None]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"places": ()}, "0 places; expected 1 to 255"),
        ({"ngram": 1}, "--decontaminate-ngram 1: expected 2 to 1,000"),
        ({"share": 1.0}, "expected a share from 0 to below 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadraceError, match=message) as raised:
        Decontamination(**{"places": ("e.jsonl",), **how})
    assert isinstance(raised.value, UsageError)
