"""The regular work that many tables need, in turns.

From top to bottom:

    upkeep.py            Upkeep: which table's turn it is, and which of its duties
    duties.py            the duties: what each one does, and when it is due again
    reaper.py            Reaper: the one duty of retention, each table when its next row is due
    service.py           what both have in common: tables that a loop serves, until it is stopped
    table_loop.py        serves many tables, each when it is due, one step at a time
    agenda.py            things that become due, earliest first
    stop.py              the wish that a loop ends
    registered_table.py  where a registered table is, and how it is opened

What a duty does to a table is decided elsewhere (`retention/`, `compaction/`, `gc/`).
"""
