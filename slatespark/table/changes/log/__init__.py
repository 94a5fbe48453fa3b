"""The log of a table: every write, in order of sequence numbers, from the WAL and the files of slatespark's commits.

A stream plans its batches so:

    tail = LogTail(stores)                                # on the driver, once in a run
    start = tail.poll()                                   # or `position_of(stores, version)`, or a stored position
    end = tail.poll()                                     # after each pollInterval: a few requests, no listing
    plan = fetch_log_plan(stores, options, clock, start, end)
    end = cut_log(stores, plan, max_rows=1000)            # where a batch is to end earlier; then it is planned again
    for split in plan.splits: scan_log(stores, split, plan.settings)      # in tasks

A position is three numbers, which a stream may store. The same two positions give the same writes at any time, or
`HistoryTrimmedError`. How versions differ is the part of `changes` itself.
"""
