"""Chains of numbered objects: manifests, compactions files, table definitions, and how the newest version is changed.

May import `storage` and `format`. A chain knows numbers; `versioned_object` adds the one loop of read, change,
create if absent, retry. Keep out: what a commit decides, and rows.
"""
