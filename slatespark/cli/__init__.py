"""The `slatespark` command: parse the arguments, call `slatespark.table`, show the answer through `slatespark.display`.

Only this package imports typer and rich. It may import every layer below, and `slatespark.spark` for the commands that
start Spark. Each command is one function with `--json`. Keep out everything that a program might call: that belongs in
`SlateStore`.
"""
