"""What a job tells every process that works for it, and what such a process makes of it, once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from headrace.dataeng.sources.base import Columns
from headrace.dataeng.storage import Store
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.backends import Fast, fast_backend
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.filters.chain import Chain
from headrace.tokenize.filters.prepare import Prepared
from headrace.tokenize.heap import keep_heap_small, return_freed_memory
from headrace.tokenize.journal import Journal
from headrace.tokenize.tokenizers import Encoder, load


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """What every worker of a job needs, once. It travels to other processes and machines."""

    store: Store
    tokenizer: bytes
    identity: TokenizerId
    columns: Columns
    config: TokenizeConfig
    dtype: str
    quarantine_damage: bool
    filters: Prepared = field(default_factory=Prepared)
    threads: int = 1  # that encode, in each process
    fast_tokenizer: bool = False
    exact_check_full: bool = False


class Tools:
    """Made by each process of its context; what not every pass needs is made when it is first asked for."""

    def __init__(self, context: Context) -> None:
        keep_heap_small()
        self.context = context
        self.journal = Journal(context.store)
        self._notes: list[str] = []

    @cached_property
    def chain(self) -> Chain:
        """The job's filters."""
        return self.context.filters.chain()

    @cached_property
    def encoder(self) -> Encoder:
        tokenizer = load(self.context.tokenizer, "tokenizer.json")
        encoder = Encoder(tokenizer, self.context.identity, self.context.dtype)
        gc.freeze()  # what is loaded by now stays: no collection need look at it again
        return_freed_memory()
        return encoder

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads that encode. They last, because the fast tokenizer keeps what it knows of words by thread."""
        return ThreadPoolExecutor(max_workers=self.context.threads, thread_name_prefix="encode")

    @cached_property
    def fast(self) -> Fast | None:
        """The fast tokenizer, if the job wants one and there is one for it; a note says why not."""
        if not self.context.fast_tokenizer:
            return None
        found = fast_backend(self.context.tokenizer, self.encoder.reference)
        return_freed_memory()
        if isinstance(found, Fast):
            return found
        self.note(f"{found.reason}; tokenizers encodes all files")
        return None

    def note(self, text: str) -> None:
        """Something to tell people with the next result."""
        self._notes.append(text)

    def take_notes(self) -> tuple[str, ...]:
        """What there is to tell since the last call."""
        notes, self._notes = tuple(self._notes), []
        return notes
