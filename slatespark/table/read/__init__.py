"""From a snapshot to rows: plan the splits, fetch their blocks, merge the layers, hide deleted and expired rows.

May import `storage`, `format` and `kernels`. `plan` is pure and costs one step per file; memory is bounded by the read
buffer and not by the size of a split. The past is read in `history`. Keep out: anything that writes an object, but for
the checkpoint of a pinned read.
"""
