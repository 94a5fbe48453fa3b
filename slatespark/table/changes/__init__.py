"""The change feed: how a version of a table differs from an earlier one, from the files that only one of them shows.

What lies here compares versions. Reading one version is the part of `read`; when rows expire, of `retention`.
"""
