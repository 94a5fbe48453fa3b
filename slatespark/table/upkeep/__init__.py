"""The regular work that many tables need, in turns.

From top to bottom:

    upkeep.py     Upkeep: which table's turn it is, and which of its duties
    duties.py     the duties: what each one does, and when it is due again
    agenda.py     things that become due, earliest first

What a duty does to a table is decided elsewhere (`retention/`, `compaction/`, `gc/`).
"""
