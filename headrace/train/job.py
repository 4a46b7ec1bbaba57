"""Everything that can be wrong with a run before its ranks have met. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import MismatchError, UsageError
from headrace.train.config import DataConfig, RunConfig
from headrace.train.environment import Place
from headrace.train.metrics import require_tensorboard

if TYPE_CHECKING:
    from headrace.dataeng.plan import Plan

PLAN = "plan.json"
CONFIG = "config.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A run that may start: its configuration, its plan, and the place of this process in it."""

    config: RunConfig
    plan: Plan
    place: Place

    @property
    def directory(self) -> Path:
        return Path(self.config.run.dir)

    @property
    def rank_batch_size(self) -> int:
        """Rows of a step on one rank."""
        return self.config.train.global_batch_size // self.place.size


def prepare(config: RunConfig, place: Place) -> Job:
    """Opens the datasets, makes the plan, checks what can be checked. Every rank does the same and finds the same, so
    that none is left waiting for one that gave up.

    Raises:
        UsageError: the configuration does not fit the data or the number of ranks; all problems, one a line.
        MismatchError: the run directory belongs to another plan.
    """
    if config.metrics.tensorboard:
        require_tensorboard()
    saved = Path(config.run.dir) / PLAN
    before = _saved_plan(saved)
    plan = build_plan(config.data, before)
    problems = [*_batch_problems(config, place), *_vocabulary_problems(config, plan)]
    if problems:
        raise UsageError("this run cannot start:\n" + "\n".join(f"  {problem}" for problem in problems))
    if before is not None:
        _require_same_plan(plan, before, saved)
    return Job(config=config, plan=plan, place=place)


def _require_same_plan(plan: Plan, found: Plan, where: Path) -> None:
    if found.includes(plan.hash):
        return
    parts = found.differences(plan.cursor())
    parts = [
        part for part in parts if part[0] != "stages"
    ] or parts  # a hash over the others, and the weights
    told = ", ".join(f"{name} (there {there}, here {here})" for name, here, there in parts)
    raise MismatchError(
        f"{where}: this run has another order of samples than the data section gives; they differ in: "
        f"{told.replace('stages', 'weights')}. Restore the data section, or name another run.dir for a new run"
    )


def _saved_plan(path: Path) -> Plan | None:
    from headrace.dataeng.plan import Plan

    return Plan.load(path) if path.exists() else None


def build_plan(data: DataConfig, before: Plan | None = None) -> Plan:
    """The plan that the `data` section describes.

    before: what the run has used so far. A dataset that has grown since is opened at the version that is in it.
    """
    from headrace.dataeng.plan import Plan
    from headrace.dataeng.source import PlanSource
    from headrace.dataeng.versions import split_version

    used = {} if before is None else {source.name: source for source in before.sources}
    sources = []
    for given in data.sources:
        source = PlanSource.open(given.uri, weight=given.weight, name=given.name)
        pinned = used.get(source.name)
        if pinned is not None and pinned.uri == source.uri and split_version(given.uri)[1] is None:
            source = PlanSource.open(
                given.uri, weight=given.weight, name=given.name, version=pinned.content_hash
            )
        sources.append(source)
    return Plan.create(
        sources,
        sequence_length=data.sequence_length,
        seed=data.seed,
        lanes=data.lanes,
        window=data.window,
        mask_document_labels=data.mask_document_labels,
    )


def _batch_problems(config: RunConfig, place: Place) -> list[str]:
    found, rows = config.train.global_batch_size, config.train.micro_batch_size
    unit = place.size * rows
    if found % unit == 0:
        return []
    below, above = found // unit * unit, (found // unit + 1) * unit
    valid = f"{below} or {above}" if below else f"{above}"
    return [
        (
            f"train.global_batch_size: {found} rows do not split evenly; {place.size} ranks with micro-batches of {rows} "
            f"need a multiple of {unit}: use {valid}, or another train.micro_batch_size"
        )
    ]


def _vocabulary_problems(config: RunConfig, plan: Plan) -> list[str]:
    if config.model.vocab_size >= plan.vocab_size:
        return []
    return [
        (
            f"model.vocab_size: {config.model.vocab_size:,}, but the datasets hold ids up to {plan.vocab_size - 1:,}; "
            f"use {plan.vocab_size} or more"
        )
    ]
