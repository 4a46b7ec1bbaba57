"""`make demo`: the whole channel on one machine, with every promise checked on the files that the steps wrote.

python -m examples.demo --out demo-out

corpus.py      this Python's standard library -> documents -> Parquet and TFRecord
vocabulary.py  documents -> a byte-level BPE of 16,384 tokens
datasets.py    headrace tokenize, twice; both datasets hold the same documents and tokens
jobs.py        torchrun -m headrace train: whole, killed and restarted, on another number of processes
equality.py    step for step, the runs say the same
report.py      what was seen, as one HTML page
steps.py       what is printed while all this happens
"""
