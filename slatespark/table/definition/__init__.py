"""What a table is besides its rows: key columns, formats, schema and properties, as a chain of versions.

May import `encoding` and `slatespark.table.log`. `plan` is pure. Keep out: when a version is
published (that is `commit`).
"""
