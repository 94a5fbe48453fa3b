"""The only package that imports pyspark: Spark's calls become calls on `slatespark.table`, and nothing is decided here.

May import every layer below; pyspark itself is imported inside modules, never by this file, since `java` must run
before it. Rows cross as Arrow record batches, options as the typed objects of `slatespark.options`, errors as one line
of text (Spark keeps nothing else of them). What Spark pickles stays small: ids, paths and key ranges, no credentials.
Keep out: reading order, commit order, any look at stored bytes.
"""
