"""Verification: every byte, checksum and invariant of a table, against its manifest.

May import `slatespark.table.read`, `rows` and below. Changes nothing. Keep out: repairs.
"""
