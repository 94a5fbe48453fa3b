"""Jobs of Spark that run work of `slatespark.table`: its tasks, the key ranges of a compaction, the compaction worker.

The driver plans and commits; tasks get small messages and return small results. Keep out: DataFrames of users.
"""
