"""Runs the demo from start to end; exits 0 only if every check holds."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.demo import corpus, datasets, equality, report, vocabulary
from examples.demo.jobs import Job
from examples.demo.steps import Steps

TORCHRUN = "torchrun --nproc_per_node 2"
HEADRACE = (sys.executable, "-m", "headrace")
TITLES = 9
DATASETS = ("parquet", "tfrecord")
RUNS = ("whole", "interrupted", "one-process")
KILL_AFTER = 23  # a few steps past the checkpoint at 20, so that the restart has steps to do again
SHARD_BYTES = 1 << 20  # small, so that this corpus makes many shards


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("demo-out"), help="directory to write (default: demo-out)"
    )
    demo = Demo(parser.parse_args().out)
    demo.make_corpus()
    demo.train_vocabulary()
    demo.tokenize()
    demo.show_plan()
    demo.train_whole()
    demo.train_interrupted()
    demo.train_on_one_process()
    demo.trace()
    demo.summarise()
    return 0 if demo.steps.succeeded else 1


class Demo:
    """The steps in their order; each leaves files, and the next ones read only those."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.steps = Steps(TITLES)
        self.inputs, self.datasets, self.runs = out / "inputs", out / "datasets", out / "runs"
        self.tokenizer = out / "tokenizer.json"
        self.config = out / "run.yaml"
        for directory in (
            self.inputs,
            *(self.datasets / name for name in DATASETS),
            *(self.runs / name for name in RUNS),
        ):
            shutil.rmtree(
                directory, ignore_errors=True
            )  # an earlier demo's; what else lies there is not ours
        for directory in (self.inputs, self.datasets, self.runs):
            directory.mkdir(parents=True, exist_ok=True)
        self.last_before_kill = -1

    def make_corpus(self) -> None:
        self.steps.begin("A real corpus: the standard library of this Python, as Parquet and as TFRecord")
        self.corpus = corpus.read_standard_library()
        self.steps.say(
            f"  {len(self.corpus.documents):,} files, {self.corpus.num_bytes / 1e6:.1f} MB of text"
        )
        for name, reason in self.corpus.unreadable:
            self.steps.say(f"  left out: {name} ({reason})")
        self.parquet = corpus.write_parquet(self.corpus.documents, self.inputs)
        self.tfrecord = corpus.write_tfrecord(self.corpus.documents, self.inputs)
        for path in (*self.parquet, *self.tfrecord):
            self.steps.say(f"  {path}  {path.stat().st_size / 1e6:.1f} MB")

    def train_vocabulary(self) -> None:
        self.steps.begin(f"A byte-level BPE of {vocabulary.VOCAB_SIZE:,} tokens, trained on it")
        vocabulary.train((document.text for document in self.corpus.documents), self.tokenizer)
        self.steps.say(f"  {self.tokenizer}")

    def tokenize(self) -> None:
        self.steps.begin("Tokenize both to MDS shards with a manifest and lineage")
        for name, sources in (("parquet", self.parquet), ("tfrecord", self.tfrecord)):
            options = ["--text-column", "text", "--id-column", "path", "--shard-bytes", str(SHARD_BYTES)]
            # Empty files such as many an __init__.py are rejected and counted; there are more than the default 1 %.
            options += ["--max-rejects", "0.05"]
            out = self.datasets / name
            self._headrace("tokenize", "--out", out, "--tokenizer", self.tokenizer, *options, *sources)
            counts = json.loads((out / "manifest.json").read_bytes())["counts"]
            self.steps.check(
                f"{name}: {counts['rows']:,} rows = {counts['documents']:,} documents + {counts['rejected']:,} "
                f"rejected, and every file that was read is a row",
                counts["rows"] == counts["documents"] + counts["rejected"] == len(self.corpus.documents),
            )
        count, differences = datasets.differences(self.datasets / "parquet", self.datasets / "tfrecord")
        self._tell(differences)
        self.steps.check(
            f"Parquet and TFRecord give the same {count:,} documents: ids, text hashes, token ids",
            count > 0 and not differences,
        )

    def show_plan(self) -> None:
        self.steps.begin("The dataset, and the order in which a run will see it")
        self._headrace("inspect", self.datasets / "parquet")
        self._headrace("plan", "--sequence-length", "128", self.datasets / "parquet")

    def train_whole(self) -> None:
        self.steps.begin("Train a mixture of experts on 2 processes, undisturbed: the reference")
        template = Path(__file__).with_name("run.yaml").read_text(encoding="utf-8")
        self.config.write_text(template.replace("DEMO", str(self.out)), encoding="utf-8")
        self._finish(Job(self.config, self.runs / "whole", processes=2, say=self.steps.say))
        self.whole = equality.read_metrics(self.runs / "whole")

    def train_interrupted(self) -> None:
        self.steps.begin("Train it again, SIGKILL every process in the middle, and start it again")
        run = self.runs / "interrupted"
        job = Job(self.config, run, processes=2, say=self.steps.say)
        self.last_before_kill = job.kill_after(KILL_AFTER)
        self.steps.say(f"  killed all processes with SIGKILL after step {self.last_before_kill}")
        shutil.copytree(
            run, self.runs / "one-process"
        )  # what a power cut leaves; the next step goes on from it
        self._finish(Job(self.config, run, processes=2, say=self.steps.say))

        self.interrupted = equality.read_metrics(run)
        stream = equality.compare(self.whole, self.interrupted, equality.STREAM)
        result = equality.compare(self.whole, self.interrupted, equality.RESULT)
        self._tell([*stream.differences, *result.differences])
        self.steps.check(
            f"all {len(self.whole)} steps are there, and {stream.tellings - stream.steps} of them were done twice",
            stream.steps == len(self.whole) and stream.tellings > stream.steps,
        )
        self.steps.check(
            f"the same samples and token digest at every step, those done twice included ({stream.tellings} compared)",
            stream.equal,
        )
        self.steps.check(
            f"the same loss and gradient norm, bit for bit ({result.tellings} compared)", result.equal
        )
        last = self.whole[-1]
        self.steps.say(f"  last step: loss {last['loss']!r}, digest {last['digest']}, in both runs")
        self._audit(run)

    def train_on_one_process(self) -> None:
        self.steps.begin("Go on from the same kill on 1 process instead of 2")
        run = self.runs / "one-process"
        before = len(equality.read_metrics(run))
        self._finish(Job(self.config, run, processes=1, say=self.steps.say))
        self.alone = equality.read_metrics(run)[before:]
        stream = equality.compare(self.whole, self.alone, equality.STREAM)
        self._tell(stream.differences)
        self.steps.check(
            f"steps {self.alone[0]['step']} to {self.alone[-1]['step']} on 1 process consumed exactly the tokens that "
            "2 processes consumed",
            stream.equal and self.alone[-1]["step"] == self.whole[-1]["step"],
        )
        self._audit(run)

    def trace(self) -> None:
        self.steps.begin("Which files were in a step, and what did they say?")
        command = ("trace", self.runs / "interrupted", "--step", str(KILL_AFTER))
        self._headrace(*command)
        told = subprocess.run([*HEADRACE, *command, "--json"], check=True, capture_output=True).stdout
        pieces = [piece for sample in json.loads(told) for piece in sample["pieces"]]
        self.steps.check(
            f"step {KILL_AFTER}: all {len(pieces)} pieces are what the tokenizer makes of the files they are traced to",
            bool(pieces) and all(self._is_from_its_file(piece) for piece in pieces),
        )

    def _is_from_its_file(self, piece: dict[str, Any]) -> bool:
        """Encodes the traced file again, from the text read at the start."""
        text = next(
            document.text for document in self.corpus.documents if document.id == piece["document_id"]
        )
        ids = vocabulary.encode(self.tokenizer, text)
        return bool(ids[piece["token_begin"] : piece["token_end"]] == piece["ids"])

    def summarise(self) -> None:
        self.steps.begin("Summary")
        held = sum(check.holds for check in self.steps.checks)
        summary = (
            f"{len(self.corpus.documents):,} files of Python's standard library, {self.corpus.num_bytes / 1e6:.1f} MB; "
            f"{len(self.whole)} steps; loss {self.whole[0]['loss']:.3f} to {self.whole[-1]['loss']:.3f}; "
            f"{held} of {len(self.steps.checks)} checks hold; {self.steps.elapsed:.0f} s."
        )
        next_steps = (
            "source .venv/bin/activate",
            f"headrace verify {self.datasets / 'parquet'}              # every byte against its hash",
            f"headrace trace {self.runs / 'whole'} --step 3 --json     # the same, for a program",
            f"{TORCHRUN} -m headrace train {self.config} --set run.dir={self.runs / 'mine'} --set train.steps=200",
            f"python examples/plain_pytorch.py {self.datasets / 'parquet'} {self.out / 'plain.pt'}",
            "Flip a byte in a shard of that dataset, then run `headrace verify` again.",
        )
        page = self.out / "report.html"
        step = self.last_before_kill
        report.write(
            page,
            checks=self.steps.checks,
            series=[
                report.Series("line", self.whole),
                report.Series("circle", self.interrupted[: self._lines_before_kill()]),
                report.Series("dot", self.interrupted[self._lines_before_kill() :]),
                report.Series("square", self.alone),
            ],
            killed=step,
            summary=summary,
            next_steps=next_steps,
        )
        self.steps.say(f"  {summary}")
        self.steps.say(f"  The loss plot and all checks: {page}")
        self.steps.say("  What to try next:")
        for line in next_steps:
            self.steps.say(f"    {line}")

    def _lines_before_kill(self) -> int:
        """Lines of the interrupted run that its first start wrote."""
        return sum(row["attempt"] == self.interrupted[0]["attempt"] for row in self.interrupted)

    def _run(self, *arguments: str | Path) -> int:
        return self.steps.run([*HEADRACE, *arguments], shown_as=f"headrace {' '.join(map(str, arguments))}")

    def _headrace(self, *arguments: str | Path) -> None:
        if (code := self._run(*arguments)) != 0:
            raise SystemExit(f"headrace {arguments[0]} ended with exit code {code}")

    def _audit(self, run: Path) -> None:
        clean = self._run("audit", run) == 0
        self.steps.check(f"the ledger of {run} proves every sample consumed exactly once", clean)

    def _finish(self, job: Job) -> None:
        code = job.wait()
        if code != 0:
            raise SystemExit(f"the training job ended with exit code {code}")

    def _tell(self, differences: list[str] | tuple[str, ...]) -> None:
        for line in differences[:10]:
            self.steps.say(f"  differs: {line}")
        if len(differences) > 10:
            self.steps.say(f"  … and {len(differences) - 10} more")


if __name__ == "__main__":
    raise SystemExit(main())
