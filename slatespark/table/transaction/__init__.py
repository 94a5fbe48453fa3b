"""Transactions: a read point, own writes, locks, and validation at the commit.

May import everything below: a transaction loads, commits and compacts like a write. Keep out: the checks of a commit.
"""
