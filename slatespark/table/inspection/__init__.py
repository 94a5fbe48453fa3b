"""Facts about a table, as values: description, files, versions, timeline, sequence numbers, resolution of a read.

May import `slatespark.table.read` and below. Changes nothing. Keep out: how facts are displayed (that is `display`).
"""
