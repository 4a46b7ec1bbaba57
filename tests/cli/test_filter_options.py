from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.filter_options import add_filter_arguments, filter_config, filter_rows
from headrace.errors import UsageError
from headrace.tokenize.filters.config import Decontamination, FilterConfig
from headrace.tokenize.filters.quality import thresholds_of


def parse(*arguments: str) -> FilterConfig:
    parser = argparse.ArgumentParser()
    add_filter_arguments(parser)
    return filter_config(parser.parse_args(arguments))


def test_without_options_there_is_no_filter() -> None:
    assert parse() == FilterConfig()


def test_every_option_becomes_its_setting(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text('{"min_words": 7}')
    found = parse(
        *("--hook", "pii:clean", "--min-chars", "5", "--max-chars", "50"),
        *("--quality", "gopher", "--quality", str(tmp_path / "rules.json")),
        *("--decontaminate", "a.jsonl", "--decontaminate", "b.txt", "--decontaminate-column", "question"),
        *("--decontaminate-ngram", "9", "--decontaminate-share", "0.5"),
    )
    assert found == FilterConfig(
        hook="pii:clean",
        min_chars=5,
        max_chars=50,
        quality={**thresholds_of(["gopher"]), "min_words": 7},
        decontamination=Decontamination(
            places=("a.jsonl", "b.txt"), columns=("question",), ngram=9, share=0.5
        ),
    )


@pytest.mark.parametrize("option", ["column", "ngram", "share"])
def test_how_to_decontaminate_without_what_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"--decontaminate-{option} says how, but no --decontaminate what"):
        parse(f"--decontaminate-{option}", "1")


def test_filters_of_a_manifest_are_said_a_row_each() -> None:
    filters = {
        "decontamination": {"ngram": 13, "evaluations": [{"name": "gsm8k.jsonl", "texts": 9}], "runs": 7},
        "hook": "pii:clean",
        "quality": {"max_words": 9, "min_words": 2},
    }
    assert filter_rows({"filters": filters}) == [
        ("filters", "decontamination ngram 13, evaluations [gsm8k.jsonl], runs 7"),
        ("", "hook pii:clean"),
        ("", "quality max_words 9, min_words 2"),
    ]


@pytest.mark.parametrize(
    "filters", [None, [], "x", 5, {}, {"a": [{}, 3, None], "b": {"c": [[]]}, "\x1b[2J": None}]
)
def test_a_manifest_of_somebody_else_does_no_harm(filters: Any) -> None:
    assert all(value.isprintable() for _, value in filter_rows({"filters": filters}))
