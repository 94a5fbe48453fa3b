"""The past of a table: its versions in order, and what is known of each.

May import everything in `slatespark.table` but `maintenance`. Keep out: changing anything.
"""
