"""The MoE trainer: plain PyTorch on a stream whose order is arithmetic.

    run.yaml ──> config ──> job (plan, checks) ──> world (ranks, mesh) ──> loop ──> metrics, ledger, checkpoints
                                                                            │
                      Loader ──> batch ──> micro-batches ──> Transformer ──> loss ──> AdamW, router bias

`torchrun … -m headrace train run.yaml` starts one process a device; `python -m headrace train run.yaml` is the
same code as a world of one.
"""
