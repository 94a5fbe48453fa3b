"""The data source of `format("slate")`: batch reads and writes, the change feed, and streams, as Spark calls them.

Imports little: each new Python worker of Spark loads these modules again. `frames` and `slate_table` build on it. Keep
out: jobs that we start ourselves (`spark/jobs`).
"""
