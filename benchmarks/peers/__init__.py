"""slatespark beside other table formats of Spark, each in an environment of its own.

`python -m benchmarks.peers` builds the environments, with the jars of the formats. Nothing else of the project needs
them. `tables.py` says what a format must do, and a file for each of them how it does it; the rest are the benchmarks.
What runs in the environments imports no slatespark but for slatespark's own part: some have a Spark that is older.
"""
