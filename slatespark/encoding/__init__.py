"""Rows of a table as the keys and values that SlateDB stores: Arrow columns in, bytes out, and back.

SlateDB fixes what a block looks like (`slatespark.format`), this project fixes what is in a key and in a value. Both
are open encodings, which any SlateDB client reads and writes with standard libraries: the tuple layer of FoundationDB
for keys, Avro single-object encoding for values. May import kernels, pyarrow and fastavro; no I/O, no clock, no Spark.
"""
