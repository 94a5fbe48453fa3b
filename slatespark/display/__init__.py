"""Dataclasses in; text, HTML and figures out.

May import the dataclasses of `slatespark.table` and below, and matplotlib inside the functions that draw. Keep out
I/O of any kind and any interpretation of the numbers.
"""
