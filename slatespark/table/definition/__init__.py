"""The definition of a table: key columns, formats, schema and properties, as a chain of versions.

May import `encoding` and `slatespark.table.log`. `plan` is pure. Keep out: when a version is published (that is
`commit`).
"""
