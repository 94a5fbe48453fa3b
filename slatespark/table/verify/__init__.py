"""Verification: every byte, checksum and invariant of a table, against what its manifest promises.

May import `slatespark.table.read`, `rows` and below. Changes nothing. Keep out: repairs.
"""
