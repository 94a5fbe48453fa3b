"""The Spark connector: turns Spark's calls into calls of `slatespark.table`. The only package that imports pyspark.

May import every layer below. Its modules import pyspark, but this file does not, since `java` must run before pyspark
is loaded. Rows cross as Arrow record batches, options as the typed objects of `slatespark.options`, errors as one line
of text, since Spark keeps nothing else of them. Pickled objects are small: ids, paths and key ranges. Storage options,
which may hold credentials, go to the tasks of a job, and are in none of its messages. Keep out: the order of reads and
commits, and stored bytes.
"""
