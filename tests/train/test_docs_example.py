from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.errors import UsageError
from headrace.train.config import parse_config

PAGE = Path(__file__).parents[2] / "docs" / "train.md"


def test_the_configuration_on_the_page_is_valid_and_shows_every_key() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    config = parse_config(text, where="docs/train.md")
    shown = parse_config(config.to_yaml(), where="resolved")
    assert shown == config
    assert not {key for key in keys(config.model_dump()) if key.rsplit(".", 1)[-1] not in text}


def test_the_page_names_every_key_without_a_default() -> None:
    with pytest.raises(UsageError) as caught:
        parse_config("run: {}\ndata: {sources: [{}]}\nmodel: {}\ntrain: {}", where="x")
    required = set(re.findall(r"^  (\S+): missing", str(caught.value), re.MULTILINE))
    (told,) = re.findall(r"To be given: (.*?) All", PAGE.read_text(), re.DOTALL)
    assert set(re.findall(r"`(.+?)`", told)) == required


def keys(values: dict[str, object], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for key, value in values.items():
        found |= keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found
