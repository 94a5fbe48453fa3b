"""The `slatespark` command: parse the arguments, call `slatespark.table`, show the answer through `slatespark.display`.

The only package that imports typer and rich; may import every layer below, and `slatespark.spark` for the commands that
start one. One function a command, each with `--json`. Keep out: anything a program could want to call, since that
belongs to `SlateStore`.
"""
