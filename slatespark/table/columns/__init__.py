"""Columnar copies: Parquet files beside SSTs, with the same rows, decoded. A copy may be missing at any time.

May import `slatespark.table.read` and below. Keep out: which compactions write copies (that is `compaction`).
"""
