"""What does each filter cost?

    python -m benchmarks.filters [--corpus DIR] [--megabytes 50] [--repeats 3]

MB of text per second of processor time, one thread, medians of interleaved passes over the same batches: the filters have no
memory of what they saw. --corpus has Parquet files with a column `text`; without it the text is the interpreter's own standard
library. Verdicts are held to their definitions on the first documents before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpus import write_corpus
from headrace.kernels.facts import FACTS
from headrace.kernels.facts_reference import facts_reference
from headrace.tokenize.filters.chain import Filter
from headrace.tokenize.filters.config import Decontamination
from headrace.tokenize.filters.decontamination import DecontaminationFilter, read_evaluations
from headrace.tokenize.filters.length import LengthFilter
from headrace.tokenize.filters.quality import PRESETS, RULES, QualityFilter, thresholds_of

_BATCH = 64
_CHECKED = 200
_EVALUATION_TEXTS = 20_000


def batches_of(corpus: Path, megabytes: int) -> list[Any]:
    texts: list[str] = []
    size = 0
    for path in sorted(corpus.glob("**/*.parquet")):
        for text in pq.read_table(path, columns=["text"])["text"].to_pylist():
            if text and size < megabytes * 1_000_000:
                texts.append(text)
                size += len(text.encode())
    return [pa.array(texts[i : i + _BATCH], pa.large_string()) for i in range(0, len(texts), _BATCH)]


def write_evaluation(path: Path, batches: list[Any]) -> None:
    """Nonsense of the corpus's own words, of 8 to 100 each: over a million runs, few of which are anywhere."""
    draw = random.Random(0)
    words = sorted({word for text in batches[0].to_pylist() for word in text.split()})
    with path.open("w") as file:
        for _ in range(_EVALUATION_TEXTS):
            length = draw.choice([8, 9, 10, 11, 12, 60, 80, 100])
            file.write(json.dumps({"text": " ".join(draw.choices(words, k=length))}) + "\n")


def check(batches: list[Any]) -> None:
    """The verdicts of --quality gopher are those of the facts' definitions."""
    thresholds = thresholds_of(["gopher"])
    judge = QualityFilter(thresholds)
    texts = [text for batch in batches[: _CHECKED // _BATCH + 1] for text in batch.to_pylist()][:_CHECKED]
    for text, found in zip(texts, judge.judge(pa.array(texts, pa.large_string())).tolist(), strict=True):
        known = facts_reference(text)
        assert set(known) == set(FACTS)
        expected = 0
        for number, name in enumerate((name for name in RULES if name in thresholds), 1):
            rule, limit = RULES[name], thresholds[name]
            if rule.of is not None and not known[rule.of]:
                continue
            value = known[rule.fact] / (known[rule.of] if rule.of is not None else 1)
            if value < limit if rule.at_least else value > limit:
                expected = number
                break
        assert found == expected, (found, expected)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = args.corpus
        if corpus is None:
            corpus = Path(temporary)
            write_corpus(corpus, args.megabytes, 2)
        batches = batches_of(corpus, args.megabytes)
        check(batches)
        evaluation = Path(temporary) / "evaluation.jsonl"
        write_evaluation(evaluation, batches)
        evaluations = read_evaluations(Decontamination(places=(str(evaluation),)))
    filters: dict[str, Filter] = {"--min-chars, --max-chars": LengthFilter(100, 100_000)}
    for preset in PRESETS:
        filters[f"--quality {preset}"] = QualityFilter(thresholds_of([preset]))
    filters["--decontaminate"] = DecontaminationFilter(evaluations)
    seconds: dict[str, list[float]] = {name: [] for name in filters}
    kept: dict[str, int] = {}
    for each in filters.values():
        each.judge(batches[0])  # compiles
    for _ in range(args.repeats):
        for name, each in filters.items():
            begun = time.process_time()
            kept[name] = sum(int((each.judge(batch) == 0).sum()) for batch in batches)
            seconds[name].append(time.process_time() - begun)
    num_bytes = sum(len(text.encode()) for batch in batches for text in batch.to_pylist())
    documents = sum(map(len, batches))
    runs = evaluations.described["runs"]
    print(
        f"{documents:,} documents, {num_bytes / 1e6:,.0f} MB; {runs:,} runs of {evaluations.known.size} words"
    )
    for name, taken in seconds.items():
        print(f"{name:24} {num_bytes / 1e6 / statistics.median(taken):8,.0f} MB/s   kept {kept[name]:,}")


if __name__ == "__main__":
    main()
