"""Checkpoints keep a version, and all files that it needs, from garbage collection.

May import `slatespark.table.log` and snapshots. Each change is one more manifest and claims no epoch. Keep out: which
versions a commit retains (that is `commit`).
"""
