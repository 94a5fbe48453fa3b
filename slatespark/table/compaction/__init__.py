"""Compaction: which runs are merged, which versions and tombstones are kept, the job entry, the commit.

May import `slatespark.table.retention` and below. `plan` is pure; `run` does the I/O. Keep out: deleting the inputs
(that is `gc`).
"""
