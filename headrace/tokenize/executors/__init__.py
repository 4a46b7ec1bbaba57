"""Who does the units: processes on this machine, or the nodes of a Ray cluster.

    tasks ──> executor ──> a process each, one task at a time ──> task.run(tools, report)
                │                                                    │
                └── (unit, Counts | Done) as they come <─────────────┘

A `Task` carries what is done to its unit, so any pass over units has the same processes, the same watch over them and the
same treatment of errors. What a task stores depends on nothing but the task and the context, so that it does not matter who
does it, how often, or whether somebody else is doing it at the same moment.
"""
