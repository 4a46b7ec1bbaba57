"""What a run would be, without a step of it."""

from __future__ import annotations

from headrace.train.config import RunConfig
from headrace.train.environment import Place
from headrace.train.job import prepare
from headrace.train.model.transformer import count_parameters


def describe(config: RunConfig) -> str:
    """Checks all that a start would check, then the resolved configuration and its sizes, as YAML with comments.

    Raises whatever `prepare` raises.
    """
    job = prepare(config, Place.from_environment())
    total, active = count_parameters(config.model)
    tokens = config.train.global_batch_size * config.data.sequence_length
    return (
        config.to_yaml()
        + f"# parameters         {total:,} ({active:,} used by a token)\n"
        + f"# tokens a step      {tokens:,} ({config.train.global_batch_size} rows of {config.data.sequence_length})\n"
        + f"# tokens of the run  {tokens * config.train.steps:,}\n"
        + f"# plan               {job.plan.hash}\n"
        + f"# configuration      {config.hash}\n"
    )
