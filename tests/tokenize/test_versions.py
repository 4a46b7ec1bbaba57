"""Any sequence of appends, takedowns, merges and prunes, against lists in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.dataeng.dataset import Dataset
from headrace.dataeng.plan import Plan
from headrace.dataeng.source import PlanSource
from headrace.errors import BudgetError, MismatchError, UsageError
from headrace.manifests.dataset import MANIFEST
from headrace.manifests.parquet import read_table
from headrace.tokenize.filters.reasons import TAKEN_DOWN
from headrace.tokenize.merge import merge
from headrace.tokenize.predicate import parse
from headrace.tokenize.prune import OLD, prune, versions
from headrace.tokenize.publish import REJECTS, SOURCES
from headrace.tokenize.takedown import Takedown, take_down
from headrace.tokenize.verify import verify
from tests.tokenize.small import Document, all_documents, documents, publish_small

LENGTHS = st.lists(st.sampled_from([0, 1, 3, 90, 200, 700]), min_size=1, max_size=6).filter(any)


def where(text: str, *, keep: bool = False) -> Takedown:
    return Takedown(selection=parse(text), keep=keep, told={"where": text})


@dataclass
class Model:
    """A dataset and what each of its versions has to hold: documents, rows, and rows taken down."""

    root: Path
    documents: list[Document] = field(default_factory=list)
    rows: int = 0
    taken_down: int = 0
    names: int = 0
    compression: str = "none"
    expected: dict[str, list[Document]] = field(default_factory=dict)

    def add(self, lengths: list[int], name: str) -> None:
        self.documents = self.documents + [each for each in documents(name, lengths) if each[3]]
        self.rows += len(lengths)
        self.names += 1

    def check(self) -> None:
        dataset = Dataset.open(self.root)
        manifest = dataset.manifest
        self.expected[manifest.hash] = self.documents
        counts = manifest.counts
        assert (counts.rows, counts.documents) == (self.rows, len(self.documents))
        assert counts.rejected == self.rows - len(self.documents)
        assert counts.tokens == sum(len(tokens) for *_, tokens in self.documents)
        assert manifest.rejects.get(TAKEN_DOWN, 0) == self.taken_down
        sources, rejects = (read_table(dataset.read(name)).to_pylist() for name in (SOURCES, REJECTS))
        for source in sources:
            left = [each for each in self.documents if each[1] == source["source"]]
            gone = [each for each in rejects if each["source"] == source["source"]]
            assert (source["documents"], source["rejected"]) == (len(left), len(gone))
            assert source["rows"] == len(left) + len(gone)
        for version in versions(str(self.root)):
            digest = version.manifest.hash
            if version.state == "pruned":
                with pytest.raises(MismatchError, match="was pruned"):
                    Dataset.open(self.root, version=digest)
                continue
            assert all_documents(Dataset.open(self.root, version=digest)) == self.expected[digest]
            report = verify(f"{self.root}@{digest}")
            assert (report.ok, report.manifest) == (True, digest), report.problems


def step(draw: Callable[[Any], Any], model: Model, work: Path) -> Model:
    kind = draw(st.sampled_from(["append", "append", "drop", "keep", "merge", "prune"]))
    name = f"s{model.names}"
    if kind == "append":
        lengths = draw(LENGTHS)
        publish_small(model.root, {name: lengths}, onto=True, compression=model.compression)
        model.add(lengths, name)
    elif kind in ("drop", "keep"):
        tokens, source = draw(st.sampled_from([1, 3, 90, 200])), draw(st.integers(0, max(0, model.names - 1)))
        text = draw(
            st.sampled_from(
                [f"tokens > {tokens}", f"source = 's{source}'", f"row = 0 and tokens <= {tokens}"]
            )
        )

        def selected(each: Document) -> bool:
            if text.startswith("source"):
                return each[1] == f"s{source}"
            return (
                (each[2] == 0 and len(each[3]) <= tokens) if text.startswith("row") else len(each[3]) > tokens
            )

        left = [each for each in model.documents if selected(each) == (kind == "keep")]
        before = (model.root / MANIFEST).read_bytes()
        takedown = where(text, keep=kind == "keep")
        if Dataset.open(model.root).manifest.change == takedown.change:  # the same command again
            assert take_down(str(model.root), takedown).already_complete
            assert (model.root / MANIFEST).read_bytes() == before
        elif len(left) in (0, len(model.documents)):
            with pytest.raises((UsageError, BudgetError)):
                take_down(str(model.root), takedown)
            assert (model.root / MANIFEST).read_bytes() == before
        else:
            outcome = take_down(str(model.root), takedown, threads=2)
            assert outcome.total("documents") == len(model.documents) - len(left)
            model.taken_down += len(model.documents) - len(left)
            model.documents = left
    elif kind == "merge":
        lengths = draw(LENGTHS)
        other = publish_small(work / f"other{model.names}", {name: lengths}, compression=model.compression)
        root = work / f"merged{model.names}"
        merged, _ = merge([str(model.root), str(work / f"other{model.names}")], str(root), threads=2)
        assert [part["version"] for part in merged.change["of"]][1] == other.hash
        model = Model(root, model.documents, model.rows, model.taken_down, model.names, model.compression)
        model.add(lengths, name)
    else:
        prune(str(model.root), [OLD])
    return model


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_law_3_every_version_keeps_its_documents_through_whatever_comes_after(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        model = Model(work / "d", compression=data.draw(st.sampled_from(["none", "zstd:3"])))
        first = data.draw(LENGTHS)
        publish_small(model.root, {"s0": first}, compression=model.compression)
        model.add(first, "s0")
        model.check()
        for _ in range(data.draw(st.integers(1, 5))):
            model = step(data.draw, model, work)
            model.check()


def test_law_3_a_plan_reads_the_same_tokens_after_growth_and_takedown_and_is_refused_after_a_prune(
    tmp_path: Path,
) -> None:
    root = tmp_path / "d"
    publish_small(root, {"a": [300, 200, 5, 90], "b": [700]})
    plan = Plan.create([PlanSource.open(root)], sequence_length=16)
    plan.save(tmp_path / "plan.json")
    publish_small(root, {"c": [400]}, onto=True)
    take_down(str(root), where("source = 'a'"))
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == plan.hash
    assert again.sources[0].dataset is not None
    assert all_documents(again.sources[0].dataset) == [
        *documents("a", [300, 200, 5, 90]), *documents("b", [700])
    ]  # fmt: skip
    prune(str(root), [plan.sources[0].content_hash[:12]])
    with pytest.raises(MismatchError, match=r"dataset 'd': the plan was made for content .* was pruned"):
        Plan.load(tmp_path / "plan.json")


def test_a_damaged_manifest_of_an_older_version_is_a_problem_of_every_later_one(tmp_path: Path) -> None:
    root = tmp_path / "d"
    first = publish_small(root, {"a": [300]})
    for name in "bc":
        publish_small(root, {name: [3]}, onto=True)
    name = f"manifest.{first.hash[:16]}.json"
    (root / name).write_bytes((root / name).read_bytes() + b" ")
    newest, middle = Dataset.open(root).manifest.hash, Dataset.open(root).manifest.parent
    for version in (newest, middle):
        (problem,) = verify(f"{root}@{version}").problems
        assert problem.file == name
        assert "SHA-256" in problem.problem
