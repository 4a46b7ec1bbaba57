"""Which documents repeat an earlier one, in the same words or nearly so: of the whole corpus, in bounded memory.

    units ──> scan ──> keys of every document ──> decide ──> drops of each unit ──> tokenize leaves them out
              reads, filters, hashes              sorts      which rows, and of which they are duplicates

    config.py      what is asked for, and what follows from it
    signatures.py  MinHash signatures of texts
    keys.py        the files of keys, and what has been read of a unit
    scan.py        the first pass over a unit
    corpus.py      the keys of all units, looked up by the number of a document
    parent.py      the documents of a dataset to which others are added, as keys
    firsts.py      the first document with the same key, over files that hold more than memory does
    decide.py      from all keys to the drops
    drops.py       the drops of a unit, and the tokenizer's look at them
    journal.py     what is done of all this
    scratch.py     files that no kill leaves behind

A document is dropped if, and only if, an earlier one in the order of the corpus has the same text (`duplicate`), or shares a
band of its signature, as the first to have it, and is estimated to be as similar as was asked (`near_duplicate`). So what
becomes of a document depends on what is before it and never on what is behind: documents added at the end leave every
earlier verdict as it is.
"""
