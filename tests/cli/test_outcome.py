from __future__ import annotations

from pathlib import Path

from headrace.cli.outcome import dataset_table
from headrace.dataeng.dataset import Dataset
from tests.tokenize.jobs import CommandLine, write_parquet, write_tokenizer


def test_the_table_has_a_line_a_reason_faults_before_filters_the_most_first_and_no_time(
    tmp_path: Path,
) -> None:
    (tmp_path / "corpus").mkdir()
    texts = [f"document {n}" for n in range(13)] + [None, " ", " ", "", "short", "tiny", "x" * 99]
    write_parquet(tmp_path / "corpus" / "a.parquet", texts)
    command = CommandLine(tmp_path / "corpus", write_tokenizer(tmp_path / "tokenizer.json"))
    done = command.run(tmp_path / "dataset", "--min-chars", "8", "--max-chars", "80")
    manifest = Dataset.open(tmp_path / "dataset").manifest
    shown = dataset_table(manifest, str(tmp_path / "dataset")).splitlines()
    assert done.stdout.splitlines() == shown
    assert "MB/s of text" in done.stderr
    reasons = [line.split() for line in shown if "%" in line]
    assert reasons == [
        ["rejected", "2", "10.00%", "blank"],
        ["1", "5.00%", "empty"],
        ["1", "5.00%", "null"],
        ["filtered", "2", "10.00%", "length:short"],
        ["1", "5.00%", "length:long"],
    ]
    values = [line[:11] for line in shown]
    assert all(value == value[:9].ljust(9) + "  " for value in values), "two aligned columns"
