"""The model: a decoder of attention and mixture-of-experts blocks, one idea a file.

Shapes live in names. A suffix spells a tensor's axes:

    B rows of a micro-batch    T tokens of a row      N tokens, B*T flattened
    D model width              H query heads          G key/value heads       C channels of a head
    E experts                  K experts a token      S slots, N*K            F hidden width of one expert
    V vocabulary               L layers
"""
