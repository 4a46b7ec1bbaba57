from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from headrace.cli.main import main
from headrace.convert.megatron_out import export_megatron
from headrace.dataeng.dataset import Dataset
from headrace.errors import BudgetError, HeadraceError, InputError, MismatchError, UsageError
from headrace.tokenize.verify import verify
from tests.convert.files import (
    documents_of,
    lineage_of,
    rejects_of,
    take_in,
    write_datatrove,
    write_megatron,
)
from tests.datasets import random_documents
from tests.tokenize.jobs import EOS, file_hashes, write_tokenizer

DOCUMENTS = random_documents(5, 200)


def test_documents_come_out_as_they_went_in_and_say_where_from(tmp_path: Path) -> None:
    megatron = write_megatron(tmp_path / "m", DOCUMENTS, "int32")
    trove = write_datatrove(tmp_path / "t.ds", DOCUMENTS[:3], 4)
    outcome = take_in(tmp_path / "out", megatron, trove, shard_bytes=4096)
    assert documents_of(tmp_path / "out") == DOCUMENTS + DOCUMENTS[:3]
    assert outcome.manifest.counts.rows == outcome.manifest.counts.documents == 203
    assert outcome.manifest.change == {"kind": "adopt"}
    assert outcome.manifest.dtype == "uint16"
    assert verify(str(tmp_path / "out")).ok
    both = write_megatron(tmp_path / "both", [*DOCUMENTS, *DOCUMENTS[:3]], "uint16")
    export_megatron(Dataset.open(tmp_path / "out"), str(tmp_path / "again"))
    for kind in ("bin", "idx"):
        assert Path(f"{both}.{kind}").read_bytes() == (tmp_path / f"again.{kind}").read_bytes()
    rows = lineage_of(tmp_path / "out")
    assert [row["source"] for row in rows] == [f"{megatron}.bin"] * 200 + [trove] * 3
    assert [row["row"] for row in rows] == [*range(200), 0, 1, 2]
    ends = np.cumsum([len(document) for document in DOCUMENTS]).tolist()
    assert [row["byte_offset"] for row in rows[:200]] == [4 * end for end in [0, *ends[:-1]]]
    as_stored = np.array(DOCUMENTS[7], "<u2").tobytes()
    assert rows[7]["text_hash"] == hashlib.sha256(as_stored).digest()[:16]
    assert rows[7]["text_bytes"] == 0


@dataclass(frozen=True)
class Whole:
    """A file of several units (they are planned for about 4 MiB of text), and what an undisturbed adoption makes of it."""

    source: str
    hashes: dict[str, str]

    def arguments(self, out: Path, *more: str) -> list[str]:
        return ["adopt", "--out", str(out), "--vocab-size", "1000", "--workers", "1", *more, self.source]

    def command(self, out: Path, *more: str) -> list[str]:
        return [sys.executable, "-m", "headrace", *self.arguments(out, *more)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    source = write_megatron(root / "big", [[n % 1000] * 60_000 for n in range(60)], "uint16")
    take_in(root / "out", source, workers=1)
    assert len({row.unit for row in Dataset.open(root / "out").shards.rows()}) > 1
    return Whole(source, file_hashes(root / "out"))


def test_law_4_bytes_depend_on_nothing_but_the_files(tmp_path: Path, whole: Whole) -> None:
    out = tmp_path / "out"
    take_in(out, whole.source, workers=2)
    assert file_hashes(out) == whole.hashes
    assert take_in(out, whole.source).already_complete
    with pytest.raises(MismatchError, match="vocab_size"):
        take_in(out, whole.source, vocab_size=1001)


def test_law_6_an_adoption_that_was_killed_is_continued_to_the_same_bytes(
    tmp_path: Path, whole: Whole
) -> None:
    out = tmp_path / "out"
    begun = subprocess.Popen(whole.command(out), stderr=subprocess.DEVNULL)
    while not (out / "_units" / "000000.json").exists() and begun.poll() is None:
        pass
    begun.kill()
    begun.wait()
    subprocess.run(whole.command(out), check=True, capture_output=True, timeout=120)
    assert file_hashes(out) == whole.hashes


def test_shares_and_a_finish_give_the_same_bytes(tmp_path: Path, whole: Whole) -> None:
    out = tmp_path / "out"
    assert main(whole.arguments(out, "--shard-of", "1/2")) == 0
    assert main(whole.arguments(out, "--finish")) == 75
    assert main(whole.arguments(out, "--shard-of", "0/2")) == 0
    assert main(whole.arguments(out, "--finish")) == 0
    assert file_hashes(out) == whole.hashes


def test_a_ray_cluster_gives_the_same_bytes(tmp_path: Path, whole: Whole) -> None:
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    out = tmp_path / "out"
    where = ["--executor", "ray", "--address", "local"]
    subprocess.run(whole.command(out, *where), check=True, capture_output=True, timeout=150)
    assert file_hashes(out) == whole.hashes


def test_empty_documents_are_rejects_and_all_are_counted(tmp_path: Path) -> None:
    megatron = write_megatron(tmp_path / "m", [[1, 2], [], [3], []], "uint16")
    with pytest.raises(BudgetError, match="4 rows seen, 2 kept, 2 rejected"):
        take_in(tmp_path / "out", megatron)
    counts = take_in(tmp_path / "out", megatron, max_rejects=0.5).manifest.counts
    assert (counts.rows, counts.documents, counts.rejected) == (4, 2, 2)
    assert documents_of(tmp_path / "out") == [[1, 2], [3]]
    assert [row["row"] for row in lineage_of(tmp_path / "out")] == [0, 2]
    told = [
        (row["source"], row["row"], row["byte_offset"], row["reason"]) for row in rejects_of(tmp_path / "out")
    ]
    assert told == [(f"{megatron}.bin", 1, 4, "empty"), (f"{megatron}.bin", 3, 6, "empty")]
    assert verify(str(tmp_path / "out")).ok


@pytest.mark.parametrize(
    ("documents", "dtype", "given", "message"),
    [
        ([[1], [2, 1000]], "uint16", {}, "document 1 has the id 1,000, and the vocabulary has 0 to 999"),
        ([[1], [2, -1, 3]], "int32", {}, "document 1 has the id -1,"),
        ([[1, 9], [2, 9], [3, 8]], "uint16", {"eos": "9"}, "document 2 does not end with the id 9 that --eos names, but with 8"),
        ([[9, 1], [8]], "uint16", {"bos": "9"}, "document 1 does not begin with the id 9 that --bos names, but with 8"),
    ],
)  # fmt: skip
def test_ids_and_frames_that_are_not_as_claimed_publish_nothing(
    documents: list[list[int]], dtype: str, given: dict[str, str], message: str, tmp_path: Path
) -> None:
    megatron = write_megatron(tmp_path / "m", documents, dtype)
    with pytest.raises(InputError, match=message) as raised:
        take_in(tmp_path / "out", megatron, **given)  # type: ignore[arg-type]
    assert f"{megatron}.bin" in str(raised.value)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_tokenizer_that_is_given_is_the_datasets_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    encoder = Tokenizer.from_file(str(tokenizer))
    end = encoder.token_to_id(EOS)
    assert end is not None
    texts = ["one text", "another text", "a third"]
    documents = [[*encoder.encode(text).ids, end] for text in texts]
    megatron = write_megatron(tmp_path / "m", documents, "int64")
    out = str(tmp_path / "out")
    command = [
        "adopt",
        "--out",
        out,
        "--tokenizer",
        str(tokenizer),
        "--eos",
        EOS,
        f"{megatron}.idx",
        "--json",
    ]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["documents"] == 3
    manifest = Dataset.open(out).manifest
    assert (manifest.tokenizer.eos_id, manifest.tokenizer.special_tokens) == (end, "unknown")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == tokenizer.read_bytes()
    assert main(["inspect", out, "--number", "1"]) == 0
    assert "another text" in capsys.readouterr().out


def test_without_a_tokenizer_documents_are_shown_as_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    megatron = write_megatron(tmp_path / "m", [[17, 4, 999]], "uint16")
    out = str(tmp_path / "out")
    assert main(["adopt", "--out", out, "--vocab-size", "1000", megatron, "--progress", "none"]) == 0
    assert "unknown-1000" in capsys.readouterr().out
    assert main(["inspect", out, "--number", "0"]) == 0
    assert "17 4 999" in capsys.readouterr().out


def test_a_job_that_ends_early_says_what_became_of_every_document_that_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    megatron = write_megatron(tmp_path / "m", [[17], [], [4]], "uint16")
    command = [
        "adopt",
        "--out",
        str(tmp_path / "out"),
        "--vocab-size",
        "1000",
        megatron,
        "--progress",
        "none",
    ]
    assert main(command) == 1
    assert "3 rows were read = 2 documents + 1 rejected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vocab-size", "0"], "--vocab-size 0"),
        (["--vocab-size", "9999999999"], "--vocab-size 9,999,999,999"),
        (["--vocab-size", "10", "--eos", "10"], "it is an id below 10"),
        (["--vocab-size", "10", "--eos", "auto"], "it is an id below 10"),
        (["--vocab-size", "10", "--document-tokens", "0"], "--document-tokens 0"),
        (["--vocab-size", "10", "--dtype", "float32"], "token ids are integers"),
        (["--vocab-size", "10", "--compression", "gz"], "--compression 'gz'"),
        (["--vocab-size", "10", "--workers", "0"], "--workers 0"),
    ],
)
def test_bad_usage_is_a_message(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    megatron = write_megatron(tmp_path / "m", [[1]], "uint16")
    assert main(["adopt", "--out", str(tmp_path / "out"), *arguments, megatron]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("m", UsageError, "lies in"),
        ("nothing", InputError, "no such file or directory"),
        ("empty", InputError, "no file of tokens is there"),
        ("*.ds", InputError, "no file of tokens is there"),
    ],
)
def test_places_without_tokens_are_refused(
    place: str, error: type[HeadraceError], message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "m").mkdir()
    with pytest.raises(error, match=message):
        take_in(tmp_path / "m" / "out", tmp_path / place)


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    megatron = write_megatron(tmp_path / "m", [[1]], "uint16")
    with pytest.raises(InputError, match=r"m\.bin is given twice"):
        take_in(tmp_path / "out", megatron, f"{megatron}.idx")
