"""`slatespark.sql`: the statements that Spark cannot hand to a Python data source, as calls on `SlateTable`.

Clauses are found here. Expressions and queries go to Spark as they were written, and what is not understood is refused,
so that no statement gets another meaning.
"""
