"""What each step was like: one JSON line a step, always; TensorBoard beside it if asked (docs/formats/run.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import MissingExtra

METRICS = "metrics.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class StepMetrics:
    """One step, all ranks together. Lists have one entry a layer.

    loss: mean cross-entropy in nats over the valid labels of the global batch.
    tokens: consumed since the start of the run, this step included.
    wait_seconds: the longest that any rank waited for its data.
    expert_max, expert_min: share of the slots of the most and the least used expert (even: 1 / experts).
    router_entropy: mean over tokens, in nats (uniform: log of the number of experts).
    balance_loss, z_loss: unweighted means over rows.
    digest: of the global batch, as in the ledger.
    """

    step: int
    attempt: int
    loss: float
    grad_norm: float
    lr: float
    tokens: int
    tokens_per_second: float
    seconds: float
    wait_seconds: float
    first_sample: int
    end_sample: int
    digest: str
    expert_max: list[float]
    expert_min: list[float]
    router_entropy: list[float]
    balance_loss: list[float]
    z_loss: list[float]

    def line(self) -> str:
        """For a person watching."""
        return (
            f"step {self.step:>6}  loss {self.loss:8.4f}  grad {self.grad_norm:7.3f}  lr {self.lr:.2e}  "
            f"{self.tokens_per_second:9,.0f} tok/s  wait {self.wait_seconds:6.3f} s  "
            f"samples {self.first_sample:,}-{self.end_sample - 1:,}  digest {self.digest}"
        )


class MetricsLog:
    """Appends to `metrics.jsonl`; a line that a killed writer left torn is cut off first."""

    def __init__(self, directory: Path, *, tensorboard: bool = False, first_step: int = 0) -> None:
        path = directory / METRICS
        self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
        self._file.truncate(_whole_lines(path))
        self._events = _event_writer(directory / "tensorboard", first_step) if tensorboard else None

    def write(self, metrics: StepMetrics) -> None:
        self._file.write(json.dumps(asdict(metrics), separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()
        if self._events is not None:
            for name, value in _scalars(metrics):
                self._events.add_scalar(name, value, metrics.step)

    def sync(self) -> None:
        """Makes every line so far durable."""
        os.fsync(self._file.fileno())
        if self._events is not None:
            self._events.flush()

    def close(self) -> None:
        self.sync()
        self._file.close()
        if self._events is not None:
            self._events.close()


def read_metrics(path: Path) -> dict[int, dict[str, Any]]:
    """The last telling of each step, in order of steps."""
    steps: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            value = json.loads(line)
            steps[value["step"]] = value
    return dict(sorted(steps.items()))


def require_tensorboard() -> None:
    """Raises `MissingExtra` unless TensorBoard can be written."""
    try:
        import tensorboard as _  # noqa: F401
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "metrics.tensorboard: true") from None


def _whole_lines(path: Path) -> int:
    """Bytes up to and including the last newline."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - 65536, 0)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def _event_writer(directory: Path, first_step: int) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(directory), purge_step=first_step)  # replayed steps replace what they replay


def _scalars(metrics: StepMetrics) -> Iterator[tuple[str, float]]:
    for name, value in asdict(metrics).items():
        if isinstance(value, list):
            yield from ((f"{name}/layer_{layer}", entry) for layer, entry in enumerate(value))
        elif isinstance(value, float):
            yield name, value
