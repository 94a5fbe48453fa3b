"""DataFrames over a table: its rows by options, keys or Parquet files, and facts about it.

May import `spark/source`, `spark/jobs` and `spark/expressions`. Keep out: the methods of `SlateTable`, which return
them.
"""
