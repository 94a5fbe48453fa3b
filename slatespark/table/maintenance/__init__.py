"""Work that changes no visible row: compaction, retention, collection of files that nothing needs.

May import `storage`, `format` and `kernels`; commits go through `slatespark.table.write`. Every `*_plan` is pure, so
that it can be printed before its `*_run` acts. Keep out: timers and schedules other than the reaper's own.
"""
