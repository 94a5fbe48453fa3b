"""The past of a table: its versions in order, what is known of each, what keeps them, and how they come back.

May import everything in `slatespark.table` but `maintenance`.
"""
