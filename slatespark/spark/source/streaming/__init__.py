"""Structured Streaming: micro-batches of a query read from a table, and written to one.

Spark makes the reader and the writer anew in several processes, which share nothing but what is said here. May import
what `spark` may. What a batch reads is decided in `table/streams`, and what it writes in `table/write/stream_batch.py`.
"""
