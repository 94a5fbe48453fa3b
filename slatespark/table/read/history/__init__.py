"""Reading the past: as-of reads, the history floor, versions that are kept, timelines.

May import everything that `slatespark.table.read` may. Keep out: anything that writes an object.
"""
