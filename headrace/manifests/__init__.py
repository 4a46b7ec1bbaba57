"""What exists and what happened, as values: no I/O beyond turning a value into bytes and back.

dataset.py   a tokenized dataset: manifest head, shard table, content hash
cursor.py    where a training stream stands: next sample id + plan hash
ledger.py    what each training step consumed, through every restart
"""
