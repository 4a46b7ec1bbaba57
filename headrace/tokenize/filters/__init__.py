"""What a user may ask to be left out of a corpus, or changed, before anything is tokenized.

    texts of a batch ──> hook ──> length ──> quality ──> decontamination ──> texts that are kept, and a reason for each other

    config.py   what is asked for: FilterConfig, a part of the job's identity
    reasons.py  why a row was left out, and which reasons the user asked for
    prepare.py  from that to what workers need
    chain.py    the filters one behind the other
    hook.py     a user's own function
    length.py   characters of a document
    quality.py  rules that hold in any language
    decontamination.py  runs of words that an evaluation has too

A filter sees one document at a time, so what becomes of a document depends on nothing but its text: not on the batch,
the worker, or what was met before it. A document that one filter rejects is not shown to those behind.
"""
