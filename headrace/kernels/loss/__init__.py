"""The last projection and its cross-entropy without all logits at once: a chunk of tokens after the other.

reference.py  the definition, with all logits
softmax.py    a chunk's logits become their own gradient, in place: one read of them, one write (Triton)
op.py         `linear_cross_entropy`: the chunks, and the gradients of input and matrix beside the loss

Only the trainer imports this: it needs torch.
"""
