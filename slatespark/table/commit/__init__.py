"""The only way to publish a version: claim the epochs, fence and drain the WAL, check, publish one manifest.

May import `slatespark.table.rows`, `read` and below. The order of the steps is the protocol
(docs/explanation/how-a-commit-works.md). Keep out: second ways to publish rows.
"""
