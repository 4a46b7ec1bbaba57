"""Which samples each training step consumed, through every restart (law 8; docs/formats/ledger.md).

JSON lines, appended by one writer. Two kinds of record: a `begin` each time the job starts, a `step` for each
optimizer step. A restart from an older checkpoint replays steps; the ledger keeps both tellings, and `audit`
demands that they say the same. Every line ends with a CRC-32 of what precedes it; a torn last line, which only
a killed writer leaves, is not a record.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headrace.errors import DamageError, InputError
from headrace.manifests.typed import build

LEDGER = "ledger.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Begin:
    """A start of the job: the next step is `first_step` (steps done so far), the next sample `next_sample`."""

    attempt: int
    plan_hash: str
    first_step: int
    next_sample: int
    world_size: int
    global_batch_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Step `step`, counted from 0, consumed the samples [first_sample, end_sample).

    digest: sum mod 2**64 of a hash of each sample's tokens, 16 hexadecimal digits; it does not depend on how
    the samples were split over ranks.
    """

    attempt: int
    step: int
    first_sample: int
    end_sample: int
    digest: str


Record = Begin | Step


def encode(record: Record) -> bytes:
    """One line, newline included."""
    body = {"kind": type(record).__name__.lower(), **asdict(record)}
    text = json.dumps(body, separators=(",", ":"))
    return f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n'.encode()


def decode(line: bytes) -> Record | None:
    """The record on `line`, or None if it is torn or altered."""
    body, separator, tail = line.rpartition(b',"crc":"')
    if not separator or tail[8:] not in (b'"}\n', b'"}') or tail[:8] != b"%08x" % zlib.crc32(body + b"}"):
        return None
    try:
        value = json.loads(body + b"}")
        kind = {"begin": Begin, "step": Step}[value.pop("kind")]
        return build(kind, value, "ledger")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InputError):
        return None


def _scan(path: Path) -> Iterator[tuple[Record, int]]:
    """Records with the byte offset after each; stops before a torn tail, raises on damage before it."""
    offset = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            record = decode(line) if line.endswith(b"\n") else None
            if record is None:
                if file.read(1):
                    raise DamageError(
                        f"{path}: line {number} is damaged and is not the last; what the run consumed is no longer "
                        "known. Restore the file from a copy, or start a new run directory"
                    )
                return
            offset += len(line)
            yield record, offset


def read_ledger(path: str | os.PathLike[str]) -> list[Record]:
    """All whole records. Raises `FileNotFoundError`, and `DamageError` for a broken line that is not the last."""
    return [record for record, _ in _scan(Path(path))]


class Ledger:
    """The writer. One process holds it (rank 0); every record is in the file when the call returns."""

    def __init__(self, descriptor: int, attempts: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self.attempt = attempts

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Opens for appending; cuts off a torn last line."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        attempts, end = 0, 0
        if path.exists():
            for record, offset in _scan(path):
                attempts, end = max(attempts, record.attempt), offset
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.ftruncate(descriptor, end)
        return cls(descriptor, attempts, path)

    def begin(
        self, *, plan_hash: str, first_step: int, next_sample: int, world_size: int, global_batch_size: int
    ) -> int:
        """Records a start and returns the number of this attempt, from 1."""
        self.attempt += 1
        self._append(
            Begin(
                attempt=self.attempt,
                plan_hash=plan_hash,
                first_step=first_step,
                next_sample=next_sample,
                world_size=world_size,
                global_batch_size=global_batch_size,
            )
        )
        return self.attempt

    def step(self, step: int, first_sample: int, end_sample: int, digest: int) -> None:
        self._append(
            Step(
                attempt=self.attempt,
                step=step,
                first_sample=first_sample,
                end_sample=end_sample,
                digest=f"{digest & (2**64 - 1):016x}",
            )
        )

    def sync(self) -> None:
        """Makes everything recorded so far durable.

        Raises:
            DamageError: the records are in a file that no longer has the ledger's name: nobody could read them.
        """
        os.fsync(self._descriptor)
        try:
            there = os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            there = False
        if not there:
            raise DamageError(
                f"{self._path}: the file was removed or replaced while the run wrote to it, so what the run consumed is "
                "no longer on record. Put the run directory back, or start a new one"
            )

    def close(self) -> None:
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def _append(self, record: Record) -> None:
        line = encode(record)
        written = os.write(self._descriptor, line)
        while written < len(line):  # a full disk raises; a short write is continued
            written += os.write(self._descriptor, line[written:])


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditReport:
    """What a ledger proves. `steps` is the history that counts, replays resolved to their last telling."""

    steps: list[Step]
    attempts: int
    replayed_steps: int
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def audit(records: Iterable[Record]) -> AuditReport:
    """Proves that the steps consumed every sample id from 0 on exactly once, or says where they did not.

    A replayed step must have consumed the same samples with the same digest as in its earlier telling.
    """
    history: list[Step] = []
    problems: list[str] = []
    attempts = replayed = 0
    earlier: dict[int, Step] = {}
    for record in records:
        if isinstance(record, Begin):
            attempts += 1
            if record.attempt != attempts:
                problems.append(
                    f"attempt {record.attempt} follows attempt {attempts - 1}: a start is missing"
                )
                attempts = record.attempt
            if record.first_step > len(history):
                problems.append(
                    f"attempt {record.attempt} starts at step {record.first_step:,}, but only {len(history):,} steps "
                    "are recorded before it: steps are missing"
                )
            kept = history[: record.first_step]
            earlier.update((s.step, s) for s in history[record.first_step :])
            expected = kept[-1].end_sample if kept else 0
            if record.next_sample != expected:
                problems.append(
                    f"attempt {record.attempt} starts at sample {record.next_sample:,}; the steps before it ended at "
                    f"{expected:,}: " + _gap(expected, record.next_sample)
                )
            history = kept
            continue
        if record.attempt != attempts:
            problems.append(
                f"step {record.step:,} belongs to attempt {record.attempt}, not to attempt {attempts}"
            )
        expected_step = history[-1].step + 1 if history else 0
        expected = history[-1].end_sample if history else 0
        if record.step != expected_step:
            problems.append(f"step {record.step:,} follows step {expected_step - 1:,}")
        if record.first_sample != expected:
            problems.append(
                f"step {record.step:,} starts at sample {record.first_sample:,}, expected {expected:,}: "
                + _gap(expected, record.first_sample)
            )
        if record.end_sample <= record.first_sample:
            problems.append(f"step {record.step:,} consumed no sample")
        before = earlier.pop(record.step, None)
        if before is not None:
            replayed += 1
            told, again = _content(before), _content(record)
            if told != again and told[:2] == again[:2]:
                problems.append(
                    f"step {record.step:,} was replayed in attempt {record.attempt} with other tokens: digest "
                    f"{record.digest}, before {before.digest}"
                )
        history.append(record)
    return AuditReport(steps=history, attempts=attempts, replayed_steps=replayed, problems=problems)


def _content(step: Step) -> tuple[int, int, str]:
    return step.first_sample, step.end_sample, step.digest


def _gap(expected: int, found: int) -> str:
    if found > expected:
        return f"samples {expected:,} to {found - 1:,} were never consumed"
    return f"samples {found:,} to {expected - 1:,} were consumed twice"
