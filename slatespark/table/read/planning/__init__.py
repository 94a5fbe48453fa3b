"""Which files and keys each split of a read merges, and what a split carries to its task.

May import `encoding`, `format` and `kernels`. Everything here is pure: a plan costs one step per file, no request.
Keep out: whatever fetches bytes (`read/fetch.py` reads what was planned).
"""
