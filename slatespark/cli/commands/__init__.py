"""The commands: one function each, with `--json`. `command_table.py` says which module has which.

May import the rest of `cli`, and every layer below. Keep out everything that a program might call: that belongs in
`SlateStore`.
"""
