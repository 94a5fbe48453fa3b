"""Spark's expressions and SQL text, as far as we read them: conditions, assignments, and the names that they use.

May import `slatespark.encoding`. An expression that is not understood is left to Spark. Keep out: statements
(`spark/sql`).
"""
