"""Hot loops, each beside the slow reference that defines it.

jit.py       how loops are compiled (numba, cached on disk, GIL released)
mix.py       64-bit mixing and key derivation
feistel.py   keyed permutation of [0, n) computed for one index
lattice.py   which source a (lane, position) draws from, and how often it was drawn before
locate.py    sample id -> (source, epoch, position): the order, in one pass over a batch of ids
words.py     normalised words of texts and runs of n of them, as hashes
characters.py, facts.py, facts_reference.py, repeats.py   what can be counted of a text in any language; how much of it repeats itself
overlap.py   which words of a text stand in runs of words that other texts have too
moe/         the experts of a layer on the GPU, in Triton; only the trainer imports it
loss/        the last projection and its cross-entropy without all logits at once; likewise
gather.py    document index of an MDS shard, and token rows with their document boundaries
"""
