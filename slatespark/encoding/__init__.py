"""Rows of a table as the keys and values that SlateDB stores: Arrow columns to bytes, and back.

SlateDB defines the layout of a block (`slatespark.format`); this project defines the content of keys and values. Both
use open encodings, so any SlateDB client can read and write them with standard libraries: FoundationDB's tuple layer
for keys, Avro single-object encoding for values. May import kernels, pyarrow and fastavro; no I/O, no clock, no Spark.
"""
