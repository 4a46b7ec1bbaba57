"""From what a user asked for to what a worker needs, once a job and before any work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.tokenize.filters.chain import Chain, Filter
from headrace.tokenize.filters.config import FilterConfig
from headrace.tokenize.filters.hook import Hook, HookSource, find_hook

if TYPE_CHECKING:
    from headrace.tokenize.filters.decontamination import Evaluations


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """The filters of a job, as they are sent to its workers."""

    config: FilterConfig = field(default_factory=FilterConfig)
    hook: HookSource | None = None
    evaluations: Evaluations | None = field(default=None, repr=False)

    def described(self) -> dict[str, Any]:
        """For the manifest and the job's identity: what is set, and the hashes of what it names. Empty: no filter."""
        # Where evaluations lie is no part of the job, and may hold credentials.
        own = replace(self.config, decontamination=None)
        described = {name: value for name, value in asdict(own).items() if value not in (None, {})}
        if self.hook is not None:
            described["hook_sha256"] = self.hook.sha256
        if self.evaluations is not None:
            described["decontamination"] = self.evaluations.described
        return described

    def chain(self) -> Chain:
        """In the order that `filters/__init__.py` draws."""
        from headrace.tokenize.filters.length import LengthFilter

        config = self.config
        filters: list[Filter] = []
        if config.min_chars is not None or config.max_chars is not None:
            filters.append(LengthFilter(config.min_chars, config.max_chars))
        if config.quality:
            from headrace.tokenize.filters.quality import QualityFilter

            filters.append(QualityFilter(config.quality))
        if self.evaluations is not None:
            from headrace.tokenize.filters.decontamination import DecontaminationFilter

            filters.append(DecontaminationFilter(self.evaluations))
        return Chain(filters, None if self.hook is None else Hook(self.hook))


def prepare(config: FilterConfig) -> Prepared:
    """Raises UsageError or InputError for what cannot be loaded."""
    if config.quality:
        from headrace.tokenize.filters.quality import checked

        checked(config.quality, "quality")
    evaluations = None
    if config.decontamination is not None:
        from headrace.tokenize.filters.decontamination import read_evaluations

        evaluations = read_evaluations(config.decontamination)
    return Prepared(
        config=config,
        hook=None if config.hook is None else find_hook(config.hook),
        evaluations=evaluations,
    )
