"""Facts about a table, as values: description, files, versions, timeline, sequence numbers, what a read resolves to.

May import `slatespark.table.read` and below. Changes nothing. Keep out: how facts are shown (that is `display`).
"""
