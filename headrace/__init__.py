"""Headrace: the channel that carries tokens to a trainer.

    corpus                        dataset                          stream                    training
    ┌───────────────────┐         ┌────────────────────┐           ┌──────────────┐          ┌───────────────┐
    │ Parquet, TFRecord │ tokenize│ shards   (MDS)     │  plan     │ sample ids   │  Loader  │ batch, cursor │
    │ files of documents├────────>│ lineage  (Parquet) ├──────────>│ 0, 1, 2, …   ├─────────>│ step by step  │
    └───────────────────┘         │ manifest (JSON)    │           └──────────────┘          └───────┬───────┘
              ^                   └────────────────────┘                                             │
              │                                      trace: which documents were in step n?          │
              └──────────────────────────────────────────────────────────────────────────── ledger <─┘

Words, each used for one thing:

    document   one text, with an id, from one place in one source file
    unit       a range of rows of one source file: what a tokenizer worker takes, finishes or does again
    shard      a file of tokenized documents; the smallest thing that is fetched, cached and verified
    dataset    shards, their lineage and a manifest, written last; the manifest's hash is its version
    sample     `sequence_length + 1` tokens of one shard; what one row of a batch is made of
    plan       datasets, weights, seed, sequence length: a pure function from sample id to (source, epoch, shard, sequence)
    cursor     the next sample id and the plan's hash: where a run stands, whatever its world or batch size
    ledger     which sample ids each step consumed, through every restart

A plain PyTorch loop:

    plan = headrace.Plan.create([headrace.PlanSource.open("corpus/")], sequence_length=1024)
    with headrace.Loader(plan, global_batch_size=8, num_steps=100) as loader:
        for batch in loader:
            loss = train_step(batch.inputs, batch.labels)
            save(batch.cursor)          # what follows this batch: a Loader given it continues on the next token

Importing headrace imports nothing else: each name below loads what it needs when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.dataeng.batch import Batch
    from headrace.dataeng.dataset import Dataset
    from headrace.dataeng.loader import Loader
    from headrace.dataeng.plan import Plan
    from headrace.dataeng.source import PlanSource
    from headrace.errors import HeadraceError
    from headrace.manifests.cursor import Cursor

__version__ = "0.1.0"

_HOMES = {
    "Batch": "headrace.dataeng.batch",
    "Cursor": "headrace.manifests.cursor",
    "Dataset": "headrace.dataeng.dataset",
    "HeadraceError": "headrace.errors",
    "Loader": "headrace.dataeng.loader",
    "Plan": "headrace.dataeng.plan",
    "PlanSource": "headrace.dataeng.source",
}

__all__ = ["Batch", "Cursor", "Dataset", "HeadraceError", "Loader", "Plan", "PlanSource", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # found once, then an ordinary global
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
