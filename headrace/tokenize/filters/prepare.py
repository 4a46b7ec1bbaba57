"""From what a user asked for to what a worker needs, once a job and before any work."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.tokenize.filters.chain import Chain, Filter
from headrace.tokenize.filters.config import FilterConfig
from headrace.tokenize.filters.hook import Hook, HookSource, find_hook


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """The filters of a job, as they are sent to its workers."""

    config: FilterConfig = field(default_factory=FilterConfig)
    hook: HookSource | None = None

    def described(self) -> dict[str, Any]:
        """For the manifest and the job's identity: what is set, and the hashes of what it names. Empty: no filter."""
        described = {name: value for name, value in asdict(self.config).items() if value not in (None, {})}
        if self.hook is not None:
            described["hook_sha256"] = self.hook.sha256
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
        return Chain(filters, None if self.hook is None else Hook(self.hook))


def prepare(config: FilterConfig) -> Prepared:
    """Raises UsageError or InputError for what cannot be loaded."""
    if config.quality:
        from headrace.tokenize.filters.quality import checked

        checked(config.quality, "quality")
    return Prepared(config=config, hook=None if config.hook is None else find_hook(config.hook))
