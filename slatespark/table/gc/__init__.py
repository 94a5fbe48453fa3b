"""Garbage collection: vacuum deletes unreferenced objects; absence proves that no object holds a key.

May import `slatespark.table.verify`, `write` and below. `plan` is pure. Keep out: anything that adds an object, other
than a boundary.
"""
