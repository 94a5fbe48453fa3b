"""Chains of numbered objects: manifests, compactions files, table definitions, and how the newest version is changed.

May import `storage` and `format`. A chain knows numbers; `versioned_object` adds the loop of read, change, create if
absent, retry. Keep out: decisions of a commit, and rows.
"""
