"""Columnar copies in a read: which exist, which pay, and their rows beside those of the layers above.

May import `read/planning`, `read/merge`, `read/fetch.py` and what a scan shows (`read/scan_settings.py`). A copy that
is missing or damaged never changes an answer: its SST is read instead. Keep out: writing copies (`table/columns`).
"""
