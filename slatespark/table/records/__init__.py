"""The JSON objects under `slatespark/`: commits, claims, workers, leases, idempotent writes.

May import `storage`. Every record is best effort or self-checking: the table is correct without any. Keep out:
decisions that depend on records.
"""
