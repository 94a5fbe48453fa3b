"""Transactions: a read point, own writes, locks, and validation when they commit.

May import everything below: a transaction loads, commits and compacts as a write does. Keep out: what a commit checks.
"""
