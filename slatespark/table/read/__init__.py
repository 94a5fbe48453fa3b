"""From a snapshot to rows: plan the splits, fetch their blocks, merge the layers, hide deleted and expired rows.

May import `storage`, `format` and `kernels`. From below: `planning` (pure), `fetch.py`, `merge`, `copies`, `scan.py`;
`versions` says which snapshot is read, and `reader.py` joins them. Memory is bounded by the read buffer and not by the
size of a split. Keep out: anything that writes an object, but for the checkpoint of a pinned read.
"""
