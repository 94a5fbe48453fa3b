"""`mergeInto`: the builder of clauses, what the merge needs of the target, and the rows that it writes.

May import `spark/frames` and `spark/expressions`. A merge is one join and one commit. Keep out: the MERGE statement
(`spark/sql` parses it into calls of the builder).
"""
