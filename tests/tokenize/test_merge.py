"""`headrace merge`: several datasets into one that needs none of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.dataeng.dataset import Dataset
from headrace.errors import DamageError, MismatchError, UsageError
from headrace.manifests.dataset import MANIFEST
from headrace.manifests.parquet import read_table
from headrace.tokenize.merge import merge
from headrace.tokenize.publish import SOURCES
from headrace.tokenize.takedown import take_down
from headrace.tokenize.verify import verify
from tests.s3 import S3Server
from tests.tokenize.dying import Died, dying_at
from tests.tokenize.jobs import file_hashes, object_hashes
from tests.tokenize.small import all_documents, documents, publish_small
from tests.tokenize.test_versions import where


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    """Two datasets; the second has two versions, whose units are not in order."""
    publish_small(tmp_path / "a", {"a": [300, 0, 5], "b": [200, 400, 400]})
    publish_small(tmp_path / "c", {"c": [400, 400, 7], "d": [1, 0], "e": [2]})
    take_down(str(tmp_path / "c"), where("tokens = 7"))
    return [str(tmp_path / "a"), str(tmp_path / "c")]


def test_the_documents_of_all_stand_one_dataset_behind_the_other_under_new_names(
    parts: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    manifest, already = merge(parts, str(out))
    opened = [Dataset.open(part) for part in parts]
    for part in parts:
        shutil.rmtree(part)
    dataset = Dataset.open(out)
    assert (manifest, already, manifest.parent) == (dataset.manifest, False, None)
    expected = [*documents("a", [300, 0, 5]), *documents("b", [200, 400, 400]), *documents("c", [400, 400])]
    expected += [*documents("d", [1]), *documents("e", [2])]
    assert all_documents(dataset) == [each for each in expected if each[3]]
    counts = [each.manifest.counts for each in opened]
    assert manifest.counts.rows == sum(count.rows for count in counts)
    assert manifest.rejects == {"empty": 2, "taken_down": 1}
    assert manifest.next_unit == sum(each.manifest.next_unit for each in opened)
    assert [part["version"] for part in manifest.change["of"]] == [each.manifest.hash for each in opened]
    report = verify(str(out))
    assert report.ok, report.problems
    publish_small(out, {"f": [1]}, onto=True)
    assert verify(str(out)).ok


def test_a_merge_is_found_complete_also_where_the_dataset_has_grown_since(
    parts: list[str], tmp_path: Path
) -> None:
    manifest, _ = merge(parts, str(tmp_path / "out"))
    publish_small(tmp_path / "out", {"f": [1]}, onto=True)
    before = file_hashes(tmp_path / "out")
    assert merge(parts, str(tmp_path / "out")) == (manifest, True)
    assert file_hashes(tmp_path / "out") == before


def test_law_6_a_merge_that_dies_at_any_instant_is_continued_by_the_same_command(
    parts: list[str], tmp_path: Path
) -> None:
    merge(parts, str(tmp_path / "whole"), threads=1)
    expected = file_hashes(tmp_path / "whole")
    instant, finished = 0, False
    while not finished:
        out = tmp_path / f"out{instant}"
        try:
            with dying_at(instant):
                merge(parts, str(out), threads=2)
            finished = True
        except Died:
            pass
        published = (out / MANIFEST).exists()
        assert not published or verify(str(out)).ok
        assert merge(parts, str(out), threads=3)[1] == published
        assert file_hashes(out) == expected
        instant += 3
    assert instant > 20


def test_what_does_not_go_together_is_refused_with_each_difference(parts: list[str], tmp_path: Path) -> None:
    publish_small(tmp_path / "z", {"z": [5]}, compression="zstd:3")
    with pytest.raises(MismatchError, match=r"differ in\n  compression: there 'none', here 'zstd:3'"):
        merge([parts[0], str(tmp_path / "z")], str(tmp_path / "out"))
    head = tmp_path / "z" / MANIFEST
    manifest = Dataset.open(tmp_path / "z").manifest
    publish_small(tmp_path / "b", {"b": [200, 400, 400]})
    with pytest.raises(MismatchError, match=r"1 sources are in two of the datasets \(b\)"):
        merge([parts[0], str(tmp_path / "b")], str(tmp_path / "out"))
    with pytest.raises(UsageError, match="of two or more"):
        merge(parts[:1], str(tmp_path / "out"))
    with pytest.raises(UsageError, match="lies in the dataset"):
        merge(parts, f"{parts[1]}/out")
    head.write_bytes(replace(manifest, dtype="int8").to_bytes())
    assert not (tmp_path / "out").exists()
    merge(parts, str(tmp_path / "out"))
    with pytest.raises(MismatchError, match="holds another dataset"):
        merge(parts[::-1], str(tmp_path / "out"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    with pytest.raises(MismatchError, match="is not empty"):
        merge(parts, str(tmp_path / "full"))


def test_configurations_may_differ_and_the_new_one_says_in_what(parts: list[str], tmp_path: Path) -> None:
    root = Path(parts[0])
    manifest = Dataset.open(root).manifest
    (root / MANIFEST).write_bytes(
        replace(manifest, config={**manifest.config, "text_column": "body"}).to_bytes()
    )
    merged, _ = merge(parts, str(tmp_path / "out"))
    assert merged.config == {"id_column": "id", "text_column": None, "mixed": ["text_column"]}
    assert [part["config"]["text_column"] for part in merged.change["of"]] == ["body", "text"]
    publish_small(tmp_path / "f", {"f": [1]})
    again, _ = merge([str(tmp_path / "out"), str(tmp_path / "f")], str(tmp_path / "out2"))
    assert again.config == merged.config


def test_a_damaged_shard_is_never_copied(parts: list[str], tmp_path: Path) -> None:
    path = Path(parts[1]) / Dataset.open(parts[1]).shards.row(0).name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamageError, match=rf"{path.name}: SHA-256"):
        merge(parts, str(tmp_path / "out"))
    assert not (tmp_path / "out" / MANIFEST).exists()


@pytest.mark.s3
def test_law_10_a_merge_from_and_to_s3_gives_the_bytes_of_a_local_one(
    parts: list[str], tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    merge(parts, str(tmp_path / "out"))
    for path in Path(parts[1]).iterdir():
        s3_server.filesystem().put_file(str(path), f"{s3_bucket}/c/{path.name}".removeprefix("s3://"))
    merge([parts[0], f"{s3_bucket}/c"], f"{s3_bucket}/out")
    assert object_hashes(s3_server, f"{s3_bucket}/out") == file_hashes(tmp_path / "out")


def test_documents_keep_their_order_where_a_takedown_has_replaced_a_shard_amid_those_of_its_unit(
    tmp_path: Path,
) -> None:
    publish_small(tmp_path / "a", {"a": [400, 100, 7, 400]})
    take_down(str(tmp_path / "a"), where("tokens = 7"))
    publish_small(tmp_path / "b", {"b": [1]})
    parts = [str(tmp_path / "a"), str(tmp_path / "b")]
    merge(parts, str(tmp_path / "out"))
    expected = [each for part in parts for each in all_documents(Dataset.open(part))]
    assert all_documents(Dataset.open(tmp_path / "out")) == expected
    assert verify(str(tmp_path / "out")).ok


def test_of_two_sources_with_one_name_a_takedown_counts_the_one_with_documents(tmp_path: Path) -> None:
    publish_small(tmp_path / "a", {"a": [3, 4]})
    publish_small(tmp_path / "b", {"a": [5], "b": [6]})
    take_down(str(tmp_path / "b"), where("source = 'a'"))
    merge([str(tmp_path / "a"), str(tmp_path / "b")], str(tmp_path / "out"))
    take_down(str(tmp_path / "out"), where("tokens = 3"))
    dataset = Dataset.open(tmp_path / "out")
    sources = read_table(dataset.read(SOURCES), ["source", "documents", "rejected", "tokens"]).to_pylist()
    assert [tuple(row.values()) for row in sources] == [("a", 1, 1, 4), ("a", 0, 1, 0), ("b", 1, 0, 6)]
    assert verify(str(tmp_path / "out")).ok
