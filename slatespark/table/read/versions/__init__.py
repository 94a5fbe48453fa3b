"""Which version of the table a read sees: the newest, a named one, the one of an instant or of a sequence number.

May import `read/planning` and `read/fetch.py`. Keep out: the rows themselves.
"""
