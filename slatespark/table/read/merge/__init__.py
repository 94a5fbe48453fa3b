"""The merge of a read: cursors over sorted layers, windows of merged rows, and what becomes of the versions of a key.

May import `read/planning`, `read/fetch.py` and `read/arrow.py`. Memory is bounded by the windows, not by the layers.
Keep out: options, and which layers there are.
"""
