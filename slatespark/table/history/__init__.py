"""The past of a table: which versions exist, which instants can still be read, and what holds them there.

May import `storage` and `format`; changes go through `slatespark.table.write`. Keep out: reading rows, which is the
business of `slatespark.table.read` at the snapshot found here.
"""
