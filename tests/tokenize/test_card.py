from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.tokenize.card import card, write_card
from headrace.tokenize.survey import sample, survey
from tests.tokenize.jobs import CommandLine, write_parquet, write_tokenizer

HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)> & \u202eevil\u202c \x1b[2J &lt;"
_VOID = {"meta", "link", "img", "br", "input"}


class Page(HTMLParser):
    """Every element in order, the text of it all, and whether each element was closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """With a hostile document and a hostile file name."""
    root = tmp_path_factory.mktemp("card")
    (root / "corpus").mkdir()
    texts = [f"document {n} " * (n + 1) for n in range(20)] + [HOSTILE, None, " "]
    write_parquet(root / "corpus" / "<b onload=alert(3)>.parquet", texts)
    command = CommandLine(root / "corpus", write_tokenizer(root / "tokenizer.json"))
    command.run(root / "dataset")
    return Dataset.open(root / "dataset")


@pytest.fixture(scope="module")
def page(dataset: Dataset) -> str:
    return card(survey(dataset, num_sources=20), sample(dataset, 100, 0))


def test_the_page_says_what_is_in_the_dataset(dataset: Dataset, page: str) -> None:
    found = Page(page)
    assert not found.open
    manifest = dataset.manifest
    for words in (
        manifest.hash, manifest.content_hash, manifest.tokenizer.sha256, f"{manifest.counts.tokens:,}", "blank", "null",
        "Documents by tokens", f"headrace verify DATASET@{manifest.hash[:16]}", "document 7 document 7",
    ):  # fmt: skip
        assert words in found.text


def test_nothing_in_a_document_or_a_name_becomes_part_of_the_page(page: str) -> None:
    found = Page(page)
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "img", "b onload=alert(3)", "iframe", "object", "link"}
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "</pre><script>alert(1)</script>" in found.text
    assert "<b onload=alert(3)>.parquet" in found.text
    assert "\\u202eevil\\u202c \\x1b[2J &lt;" in found.text
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    found = Page(page)
    assert not [a for _, a in found.elements if {"src", "href", "data", "action"} & set(a)]
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_the_picture_has_a_bar_a_bucket_and_words_for_who_cannot_see_it(dataset: Dataset, page: str) -> None:
    picture = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    histogram = survey(dataset, num_sources=1).lengths.histogram
    assert len(picture.findall("g")) == len(histogram)
    assert picture.get("role") == "img"
    assert "median" in (picture.get("aria-label") or "")
    assert all((bar.findtext("title") or "").endswith("documents") for bar in picture.findall("g"))


def test_the_bytes_follow_from_the_dataset_the_sample_and_the_title(
    dataset: Dataset, page: str, tmp_path: Path
) -> None:
    again = Dataset.open(dataset.store.uri)
    write_card(str(tmp_path / "card.html"), survey(again, num_sources=20), sample(again, 100, 0))
    assert (tmp_path / "card.html").read_bytes() == page.encode()
    titled = card(survey(again, num_sources=20), [], title="A & B")
    assert "<title>A &amp; B</title>" in titled
    assert "Chosen at random" not in titled
