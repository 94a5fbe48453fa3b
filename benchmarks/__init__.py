"""Measurements side by side with peers: the SlateDB client, Parquet through pyarrow, Parquet through Spark.

`python -m benchmarks --list` names them. Every benchmark runs its alternatives interleaved in one session, so that a
machine that gets slower meanwhile slows all of them. May import slatespark and `tests.support` (the real client); no
code of the package imports this folder. No figure is asserted here: tests on shared machines would only be flaky.
"""
