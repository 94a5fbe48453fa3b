"""From batches to sorted files: encode, sort, spill, upload.

May import `storage`, `format`, `kernels`, `encoding` and `slatespark.table.read`, whose merge it uses. Memory is
bounded by the write buffer. Keep out: manifests. A file written here stays invisible until `commit` publishes it.
"""
