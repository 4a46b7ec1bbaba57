"""Token files of other tools: into a dataset (`adopt`), and out of one (`export`).

    MDS, Megatron, ┐                 ┌ Documents, a batch ──> AdoptUnit ──> shards, lineage ┐
    datatrove,     ├─> TokenFile ────┤   at a time              checked ids                 ├─> publish
    NumPy, raw     ┘   (a value)     └ slices ──> units ──> journal ────────────────────────┘

A `TokenFile` says how one file is read; it travels to the process that reads it. What comes out is a dataset like any
other: nothing that reads one knows that it was adopted.
"""
