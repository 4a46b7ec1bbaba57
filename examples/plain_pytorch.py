"""A plain PyTorch loop over a headrace stream, which continues on the next token however often it is stopped.

    headrace tokenize --out DATASET --tokenizer tokenizer.json corpus/*.parquet
    python examples/plain_pytorch.py DATASET checkpoint.pt [STEPS]

Run it twice: the second run begins where the first one ended, in the weights and in the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import headrace


def main(dataset: str, checkpoint: Path, steps: int = 20) -> None:
    torch.manual_seed(0)
    plan = headrace.Plan.create([headrace.PlanSource.open(dataset)], sequence_length=64)
    model = torch.nn.Sequential(torch.nn.Embedding(plan.vocab_size, 64), torch.nn.Linear(64, plan.vocab_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    with headrace.Loader(plan, global_batch_size=8, num_steps=steps) as loader:
        if checkpoint.exists():
            state = torch.load(checkpoint, weights_only=True)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            loader.load_state_dict(state["loader"])
        for batch in loader:
            inputs, labels = torch.from_numpy(batch.inputs), torch.from_numpy(batch.labels)
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten(), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"samples {batch.first_sample}-{batch.end_sample - 1}  loss {loss.item():.4f}", flush=True)
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "loader": loader.state_dict(),
        }
        torch.save(state, checkpoint)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
