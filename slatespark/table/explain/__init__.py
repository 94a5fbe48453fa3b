"""Explanations: what a read, compaction, vacuum or reap touches and costs, estimated from its plan, or measured.

May import everything else of `table`. Nothing in it decides what happens: it runs the plans of the other parts, and
counts.
"""
