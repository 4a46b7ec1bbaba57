"""What a job tells every process that works for it, and what such a process makes of it, once."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

from headrace.dataeng.sources.base import Columns
from headrace.dataeng.storage import Store
from headrace.manifests.dataset import TokenizerId
from headrace.tokenize.backends import Fast, Refused, checked, load_fast
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

    @property
    def encoder(self) -> Encoder:
        return self._tokenizers[0]

    @property
    def fast(self) -> Fast | None:
        """The fast tokenizer, if the job wants one and there is one for it; a note says why not."""
        return self._tokenizers[1]

    @cached_property
    def _tokenizers(self) -> tuple[Encoder, Fast | None]:
        """Both, loaded at the same time."""
        context = self.context
        with ThreadPoolExecutor(max_workers=1) as aside:
            loading = aside.submit(load_fast, context.tokenizer) if context.fast_tokenizer else None
            encoder = Encoder(load(context.tokenizer, "tokenizer.json"), context.identity, context.dtype)
            encoder.encode([])  # compiles or loads the kernel meanwhile
            found = None if loading is None else checked(loading.result(), encoder.reference)
        if isinstance(found, Refused):
            self.note(f"{found.reason}; tokenizers encodes all files")
            found = None
        gc.freeze()  # what is loaded by now stays: no collection need look at it again
        return_freed_memory()
        return encoder, found

    @cached_property
    def pool(self) -> ThreadPoolExecutor:
        """The threads that encode. They last, because the fast tokenizer keeps what it knows of words by thread."""
        return ThreadPoolExecutor(max_workers=self.context.threads, thread_name_prefix="encode")

    def note(self, text: str) -> None:
        """Something to tell people with the next result."""
        self._notes.append(text)

    def take_notes(self) -> tuple[str, ...]:
        """What there is to tell since the last call."""
        notes, self._notes = tuple(self._notes), []
        return notes
