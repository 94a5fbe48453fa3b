"""Garbage collection: vacuum removes unreferenced objects; absence proves that a key is in no object.

May import `slatespark.table.verify`, `write` and below. `plan` is pure. Keep out: anything that adds an object other
than a collector's boundary.
"""
