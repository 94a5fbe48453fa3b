"""From rows to one new manifest: sort and spill, upload files, then the one commit path that everything shares.

May import `storage`, `format` and `kernels`, and `slatespark.table.read` for what a commit must look at. Every order of
writes that keeps a crash harmless is stated here. Keep out: second ways to publish a manifest.
"""
