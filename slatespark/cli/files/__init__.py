"""Rows as the shell gives and takes them: CSV, JSON, Parquet and Arrow files, and values as text.

May import every layer below `cli`. Memory is bounded by batches, not by files. Keep out: arguments, and reports.
"""
