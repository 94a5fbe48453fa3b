"""Operations that change the rows of a table: loads, ingests, deletes, range replacements, restores, trims, clones.

May import `slatespark.table.commit` and below; each operation ends in `commit_write`. Keep out: maintenance, which
changes no visible row.
"""
