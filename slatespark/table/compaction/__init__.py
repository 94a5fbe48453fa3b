"""Compaction: which runs are merged, which versions and tombstones the output keeps, the job entry, the commit.

May import `slatespark.table.retention` and below. `plan` is pure; `run` acts. Keep out: deleting the inputs (that is
`gc`).
"""
