"""Everything that needs both bytes and meaning: snapshots, reads, commits, history and maintenance, without Spark.

May import `storage`, `format`, `encoding` and `kernels`; it is the only importer of `storage`, so every order of reads
and writes is decided in here. `*_plan` modules decide, `*_run` modules act. A plan whose docstring says `Pure` does no
I/O; others fetch what they decide by. Time and ids come from a `Clock`. Keep out: Spark, the shell, and knowledge of
how a section of a file is laid out (that is `format`).
"""
