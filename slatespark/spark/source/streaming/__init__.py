"""Structured Streaming: micro-batches of a query read from a table, and written to one.

Spark makes a reader and a writer in each of several processes, which share nothing but what is said here. May import
what `spark` may. What a batch reads is decided in `table/streams`, and what it writes in `table/write/stream_batch.py`.
"""
