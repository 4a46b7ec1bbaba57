"""A run small enough for a test: two layers, four experts, rows of 32 tokens, real shards and the real loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from headrace.train.config import RunConfig
from tests.datasets import random_documents, write_dataset

VOCAB = 256


def tiny_dataset(root: Path) -> Path:
    """Four shards of short random documents."""
    return write_dataset(
        root,
        [random_documents(seed, 60, longest=50, vocab_size=VOCAB) for seed in range(4)],
        vocab_size=VOCAB,
    )


def tiny_values(dataset: Path, run: Path, **train: Any) -> dict[str, Any]:
    return {
        "run": {"dir": str(run)},
        "data": {
            "sources": [{"uri": str(dataset)}],
            "sequence_length": 32,
            "lanes": 24,
            "window": 16,
        },
        "model": {
            "vocab_size": VOCAB,
            "width": 32,
            "num_layers": 2,
            "num_heads": 4,
            "num_kv_heads": 2,
            "moe": {
                "num_experts": 4,
                "experts_per_token": 2,
                "expert_width": 32,
                "shared_width": 16,
                "balance_loss": 0.01,
                "bias_rate": 0.01,
            },
        },
        "train": {
            "steps": 3,
            "global_batch_size": 8,
            "micro_batch_size": 2,
            "deterministic": True,
            "checkpoint_every": 1000,
            "collective_timeout": 60,
            **train,
        },
        "optimizer": {
            "lr": 1e-2,
            "clip_norm": 0.2,
        },  # below the norms of its steps, so that clipping is in all tests
        "schedule": {"warmup_steps": 2},
    }


def tiny_config(dataset: Path, run: Path, **train: Any) -> RunConfig:
    return RunConfig.model_validate(tiny_values(dataset, run, **train))


def write_config(path: Path, dataset: Path, run: Path, **train: Any) -> Path:
    path.write_text(yaml.safe_dump(tiny_values(dataset, run, **train)))
    return path
