"""The expert part of a mixture-of-experts layer as six Triton kernels: no atomics, no host synchronisation.

    x_TD ──gather──> up ──> h_SG ─swiglu─> act_SF ──> down ──> y_SD ──combine──> out_TD
                            (kept)                                    weights_TK

    T tokens, K experts per token, S = T*K slots sorted by expert, E experts, D model width, F expert width, G = 2F

For the backward pass a layer keeps its input, h_SG and integers: 2(D + 2FK) bytes a token in bfloat16.

reference.py  the definition, expert by expert
order.py      slots sorted by expert, by torch
sort.py       the same on the GPU
glu.py        how the columns of gate and up lie in one matrix
columns.py    taking them apart inside a kernel
tiles.py      the tiles of rows that cover them
up.py         gathered tokens times gate and up, SwiGLU behind the product
rows.py       rows of slots times a matrix of their expert: the down projection, and the gradient of the input
back.py       gradients of the activation, of h and of the routing weights, in one product
weights.py    gradients of the matrices: products over the slots of each expert
combine.py    the sum over a token's experts
tuned.py      block sizes per kernel, shape and GPU
op.py         `moe_mlp`: all of it as one operator with its gradient

Only the trainer imports this: it needs torch, and all but `reference` and `order` need Triton.
"""
