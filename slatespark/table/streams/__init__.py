"""Streams of changes: where a consumer stands, how far it goes next, and which versions it keeps.

What lies here knows no Spark. What changed between two versions is the part of `changes`.
"""
