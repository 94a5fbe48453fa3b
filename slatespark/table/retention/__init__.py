"""How rows expire: the expiry report, which rows and files are past retention, and the reap that deletes them.

May import `slatespark.table.commit` and below. `plan` and `expiry_plan` are pure. Keep out: timers, and what goes over
many tables (`upkeep/`).
"""
